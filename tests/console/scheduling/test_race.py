"""Rounds that really run at the same time, on the database that production uses."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from console.audit.services import system
from console.errors import SomebodyWasFirst
from console.inventory import sharing
from console.inventory.models import Pool
from console.runs import leases
from console.scheduling.models import Placement, Round
from console.workloads.models import OfflineJob
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import a_round, a_waiting_job, live, sharing_gpus
from workers.matching.decide import decide

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def gpus(grid):
    found = sharing_gpus(3)
    grid.update(live(*found))
    for index in range(6):
        a_waiting_job(f"job-{index}")
    return found


def together(*acts):
    """Run all at the same time; what each returned or raised."""

    def one(act):
        try:
            return act()
        except SomebodyWasFirst as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


def test_two_workers_that_begin_together_run_one_round(gpus):
    together(*(lambda n=n: a_round(holder=f"worker-{n}") for n in range(4)))
    assert Placement.objects.count() == 3
    assert not Round.objects.exclude(state="DONE").exists()


def test_two_rounds_over_the_same_jobs_place_each_once(gpus, monkeypatch):
    """1. both rounds read the same queue, as when a lease was lost; 2. both write their plan: the
    constraints decide, nobody fails, and no job and no GPU is used twice."""
    monkeypatch.setattr(leases, "acquire", lambda *_: 1)
    monkeypatch.setattr(leases, "release", lambda *_: None)
    both_decided = threading.Barrier(2, timeout=5)

    def decided(snapshot):
        plan = decide(snapshot)
        both_decided.wait()
        return plan

    together(*(lambda n=n: a_round(holder=f"worker-{n}", decided=decided) for n in range(2)))
    placements = Placement.objects.values_list("job", "gpu")
    assert len(placements) == 3
    assert max(Counter(job for job, _ in placements).values()) == 1
    assert max(Counter(gpu for _, gpu in placements).values()) == 1
    assert OfflineJob.objects.filter(state="PLACED").count() == 3


def test_whoever_stops_sharing_finds_every_placement(gpus):
    """Either the round sees that sharing stopped, or the stop sees what the round placed."""
    pool = Pool.objects.get()
    together(a_round, lambda: sharing.stop([pool], system("test"), "incident", NOW))
    running = Placement.objects.exclude(state="ENDED")
    assert all(one.evictions.filter(state__in=["APPROVED", "DISPATCHED"]) for one in running)
