"""A run is done by one worker at a time, and never lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console import doorbell
from console.accounts.models import Role
from console.errors import SomebodyWasFirst
from console.runs import services
from console.runs.models import Run
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(seconds=services.LEASE_S + 1)


@pytest.fixture
def run() -> Run:
    return services.start("import", {}, a_user("ann", Role.ADMIN), doorbell.RUN_IMPORT, NOW)


def test_starting_rings_for_a_worker(monkeypatch, django_capture_on_commit_callbacks):
    rung = []
    monkeypatch.setattr(doorbell, "ringer", lambda name, id: rung.append((name, id)))
    with django_capture_on_commit_callbacks(execute=True):
        run = services.start("import", {}, a_user("ann"), doorbell.RUN_IMPORT, NOW)
    assert rung == [(doorbell.RUN_IMPORT, str(run.pk))]


def test_two_workers_claim_a_run_and_one_gets_it(run):
    assert services.claim(run.pk, "one", NOW).state == Run.State.RUNNING
    assert services.claim(run.pk, "two", NOW) is None


def test_a_run_of_a_dead_worker_is_done_by_another_and_the_first_writes_no_more(run):
    first = services.claim(run.pk, "one", NOW)
    assert services.waiting("import") == [run.pk]
    second = services.claim(run.pk, "two", LATER)
    assert second.fence > first.fence
    assert not services.progress(first, 0.9, "too late")
    with pytest.raises(SomebodyWasFirst):
        services.succeed(first, {}, LATER)
    services.succeed(second, {"nodes": 2}, LATER)
    assert Run.objects.get().result == {"nodes": 2}


def test_a_run_that_is_over_is_claimed_by_nobody(run):
    services.fail(services.claim(run.pk, "one", NOW), "no", NOW)
    assert services.claim(run.pk, "one", NOW) is None
    assert services.waiting("import") == []


def test_a_queued_run_is_cancelled_at_once(run):
    services.cancel(run, run.started_by, NOW)
    assert services.claim(run.pk, "one", NOW) is None
    with pytest.raises(SomebodyWasFirst):
        services.cancel(run, run.started_by, NOW)


def test_a_running_one_stops_at_its_next_step(run):
    claimed = services.claim(run.pk, "one", NOW)
    services.cancel(run, run.started_by, NOW)
    assert not services.progress(claimed, 0.5, "half")


def test_a_cancelled_run_of_a_dead_worker_ends(run):
    services.claim(run.pk, "one", NOW)
    services.cancel(run, run.started_by, NOW)
    assert services.claim(run.pk, "two", LATER) is None
    assert Run.objects.get().state == Run.State.CANCELLED
