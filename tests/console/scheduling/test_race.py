"""Rounds that really run at the same time, on the database that production uses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connections

from console.accounts.models import Role
from console.audit.services import system
from console.demo.processes import die_with_parent
from console.errors import SomebodyWasFirst
from console.evictions.models import Eviction
from console.inventory import sharing
from console.inventory.models import Pool
from console.runs import leases
from console.scheduling import move_plans, rounds
from console.scheduling.models import Placement, Round
from console.workloads.models import OfflineJob
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import (
    a_move,
    a_round,
    a_running,
    a_waiting_job,
    decide,
    live,
    moving,
    one_each,
    sharing_gpus,
)

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
    assert set(Round.objects.values_list("state", flat=True)) <= {"DONE", "SKIPPED"}


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


def test_two_people_who_decide_on_a_plan_together_decide_once(gpus):
    """1. both see the plan wait; 2. one approves, one rejects: all its moves follow one of them."""
    running = a_running(OfflineJob.objects.first(), gpus[0])
    plan = a_round(decided=moving(a_move(running, gpus[1]))).plan
    ortega, okafor = (a_user(name, Role.APPROVER) for name in ("ortega", "okafor"))
    ends = together(
        lambda: move_plans.approve(plan.pk, ortega, "", NOW),
        lambda: move_plans.reject(plan.pk, okafor, "", NOW),
    )
    plan.refresh_from_db()
    assert [isinstance(end, SomebodyWasFirst) for end in ends].count(True) == 1
    assert Eviction.objects.get().state == plan.state


@pytest.mark.timeout(60)
def test_a_worker_that_is_killed_in_its_transaction_leaves_nothing_behind(gpus):
    """1. a worker has written its placements and is killed before it commits; 2. its lease runs
    out; 3. another worker's round places each job once."""
    name = connections["default"].settings_dict["NAME"]
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}")
    command = [sys.executable, "-m", "tests.console.scheduling.doomed"]
    env = os.environ | {"DATABASE_URL": urlunsplit(database)}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, preexec_fn=die_with_parent
    ) as doomed:
        assert doomed.stdout.readline() == b"placed\n"
        doomed.send_signal(signal.SIGKILL)
    assert not Placement.objects.exists()
    assert Round.objects.get().state == "RUNNING"
    later = NOW + timedelta(seconds=rounds.LEASE_S + 60)
    assert a_round(holder="worker-2", now=later, decided=one_each).state == "DONE"
    assert Placement.objects.values("job").distinct().count() == Placement.objects.count() == 3
    assert Round.objects.filter(state="FAILED").count() == 1


def test_whoever_stops_sharing_finds_every_placement(gpus):
    """Either the round sees that sharing stopped, or the stop sees what the round placed."""
    pool = Pool.objects.get()
    together(a_round, lambda: sharing.stop([pool], system("test"), "incident", NOW))
    running = Placement.objects.exclude(state="ENDED")
    assert all(one.evictions.filter(state__in=["APPROVED", "DISPATCHED"]) for one in running)
