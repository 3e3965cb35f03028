"""A node falls silent: its jobs wait until it must have stopped them, and start once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console.inventory import nodes
from console.policies import rules
from console.policies import services as policies
from console.scheduling import observed
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import (
    a_placement_status,
    a_running,
    a_status,
    a_waiting_job,
    sharing_gpus,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def running():
    return a_running(a_waiting_job(), sharing_gpus(1)[0])


def sweep(placement, after_s):
    """What the sweep does, so long after the node was last heard."""
    now = NOW + timedelta(seconds=after_s)
    nodes.mark_stale(now)
    nodes.mark_lost(now)
    queued = observed.sweep_lost(now)
    placement.refresh_from_db()
    placement.job.refresh_from_db()
    return queued


def wait_s(placement, lease_s):
    body = policies.rules_for(placement.gpu.node.pool)
    return lease_s + observed.LEASE_MARGIN_S + rules.longest_stop_s(body, body.grace_s)


def test_a_short_silence_changes_nothing(running):
    sweep(running, 20)
    assert running.state == "RUNNING"


def test_a_job_of_a_lost_node_waits_for_lease_and_longest_stop(running, settings):
    settings.LEASE_S = 600
    sweep(running, 20)
    sweep(running, 40)
    assert running.state == "UNKNOWN"
    wait = wait_s(running, 600)
    assert sweep(running, wait - 1) == 0
    assert running.job.state == "PLACED", "it may still run there"
    assert sweep(running, wait) == 1
    assert (running.state, running.end_reason, running.job.state) == ("ENDED", "lost", "QUEUED")


def test_a_sweep_that_another_worker_began_is_finished(running):
    """1. a worker marks the node lost and dies; 2. the next one must still see its jobs."""
    nodes.mark_stale(NOW + timedelta(seconds=20))
    nodes.mark_lost(NOW + timedelta(seconds=40))
    sweep(running, 50)
    assert running.state == "UNKNOWN"


def test_a_node_that_comes_back_in_time_keeps_its_job(running):
    sweep(running, 20)
    sweep(running, 40)
    node = running.gpu.node
    later = NOW + timedelta(seconds=100)
    nodes.seen([node.pk], later)
    observed.apply_statuses({node.pk: a_status(node, a_placement_status(running))}, later)
    sweep(running, 105)
    assert (running.state, running.job.state) == ("RUNNING", "PLACED")


def test_a_node_that_is_back_never_has_its_job_taken_by_the_sweep(running):
    """The lease is over, but the node is heard again: its own report decides, not the clock."""
    sweep(running, 20)
    sweep(running, 40)
    nodes.seen([running.gpu.node_id], NOW + timedelta(days=1))
    observed.sweep_lost(NOW + timedelta(days=1))
    running.refresh_from_db()
    assert running.state == "UNKNOWN"
