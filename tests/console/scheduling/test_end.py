"""How placements end, by the events of their node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.wire.names import Origin
from console import doorbell
from console.audit.services import system
from console.evictions import services as evictions
from console.evictions.models import Eviction
from console.scheduling import observed
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob
from tests.console.evictions import cast as evictions_cast
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import a_running, a_waiting_job, an_end, sharing_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def running():
    return a_running(a_waiting_job(), sharing_gpus(1)[0])


def end(placement, reason, now=NOW, **data):
    observed.placement_ended(placement.gpu.node, an_end(placement, reason, **data), now)
    placement.refresh_from_db()
    return OfflineJob.objects.get(pk=placement.job_id)


def test_a_finished_job_has_succeeded(running):
    job = end(running, "finished")
    assert (job.state, running.state, running.end_reason) == ("SUCCEEDED", "ENDED", "finished")
    assert running.lost_work_s == 0


def test_an_evicted_job_waits_again_with_what_it_saved(running):
    job = end(running, "evicted", work_done_s=9_000.0, lost_work_s=1_000.0)
    assert (job.state, job.evictions, job.saved_work_s) == ("QUEUED", 1, 8_000)


def test_without_a_figure_in_the_event_the_last_status_counts(running):
    Placement.objects.filter(pk=running.pk).update(work_done_s=5_000.0, unsaved_work_s=200.0)
    assert end(running, "lost").saved_work_s == 4_800


def test_a_job_fails_for_good_after_its_last_retry(running):
    OfflineJob.objects.filter(pk=running.job_id).update(failures=3)
    assert end(running, "failed").state == "FAILED"


def test_a_job_that_failed_waits_before_its_next_try(running):
    job = end(running, "failed")
    assert (job.state, job.not_before) == ("QUEUED", NOW + timedelta(seconds=30))


def test_a_cancelled_job_does_not_wait_again(running):
    evictions.request(running, Origin.CANCEL, system("test"), "not needed", NOW)
    assert end(running, "evicted").state == "CANCELLED"


@pytest.mark.parametrize("origin", ["overload", "stop_sharing", "policy"])
def test_a_cancelled_job_does_not_wait_again_when_its_node_stops_it_first(running, origin):
    evictions.request(running, Origin.CANCEL, system("test"), "not needed", NOW)
    report = evictions_cast.a_start(running, Origin(origin))
    evictions.agent_started(running.gpu.node, report, NOW)
    assert end(running, "evicted").state == "CANCELLED"


def test_a_job_that_is_cancelled_while_it_is_taken_off_does_not_wait_again(running):
    report = evictions_cast.a_start(running, Origin.OVERLOAD)
    under_way = evictions.agent_started(running.gpu.node, report, NOW)
    asked = evictions.request(running, Origin.CANCEL, system("test"), "not needed", NOW)
    assert (asked, asked.origin) == (under_way, Origin.OVERLOAD)
    assert end(running, "evicted").state == "CANCELLED"


def test_a_cancel_that_becomes_an_emergency_still_cancels(running):
    ordered = evictions.request(running, Origin.CANCEL, system("test"), "not needed", NOW)
    evictions.tick(NOW + timedelta(seconds=60))
    report = evictions_cast.a_start(running, Origin.EMERGENCY, ordered.pk)
    evictions.agent_started(running.gpu.node, report, NOW)
    assert end(running, "evicted").state == "CANCELLED"


def test_an_end_told_twice_counts_once(running):
    end(running, "evicted")
    job = end(running, "failed")
    assert (running.end_reason, job.evictions, job.failures) == ("evicted", 1, 0)


def test_an_end_makes_the_node_forget(running):
    before = running.gpu.node.generation
    end(running, "finished")
    running.gpu.node.refresh_from_db()
    assert running.gpu.node.generation == before + 1


def test_an_end_closes_the_eviction(running):
    eviction = evictions.request(running, Origin.PREEMPT, system("test"), "needed", NOW)
    evictions.tick(NOW + timedelta(seconds=60))
    end(running, "evicted")
    eviction.refresh_from_db()
    assert eviction.state == "COMPLETED"


def test_a_node_cannot_end_a_placement_of_another(running):
    other = sharing_gpus(1, "node-02")[0]
    observed.placement_ended(other.node, an_end(running), NOW)
    running.refresh_from_db()
    assert running.state == "RUNNING"


def test_an_end_without_a_reason_that_exists_is_refused(running):
    with pytest.raises(ValueError, match="bored"):
        observed.placement_ended(running.gpu.node, an_end(running, "bored"), NOW)


def test_a_moved_job_is_placed_again_without_waiting_for_the_clock(
    running, django_capture_on_commit_callbacks, monkeypatch
):
    rung = []
    monkeypatch.setattr(doorbell, "ringer", lambda name, id: rung.append(name))
    Eviction.objects.create(
        placement=running,
        gpu=running.gpu,
        origin="move",
        state="STOPPING",
        state_since=NOW,
        proposed_at=NOW,
        why="It pays",
    )
    with django_capture_on_commit_callbacks(execute=True):
        end(running, "evicted")
    assert doorbell.RUN_ROUND in rung
