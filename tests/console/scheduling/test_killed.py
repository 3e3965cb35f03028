"""A worker that is killed in a round, at any of its steps: the old plan or the new one, whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console import doorbell
from console.errors import SomebodyWasFirst
from console.inventory import nodes
from console.runs import leases
from console.scheduling import calls, decisions, jobs, move_plans, placing, reading, rounds
from console.scheduling.calls import Call
from console.scheduling.models import Placement, Round
from console.telemetry import live_store
from console.workloads.models import OfflineJob
from tests.console.inventory.cast import NOW
from tests.console.scheduling.cast import (
    a_round,
    a_waiting_job,
    live,
    one_each,
    sharing_gpus,
)

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """As a signal: nothing that handles errors sees it."""


@pytest.fixture
def gpus(grid):
    found = sharing_gpus(3)
    grid.update(live(*found))
    for index in range(2):
        a_waiting_job(f"job-{index}")
    return found


STEPS = [
    (calls, "why_void"),
    (rounds, "_give_up_on_dead"),
    (reading, "read"),
    (decisions, "write"),
    (placing, "place"),
    (jobs, "place"),
    (decisions, "overtaken"),
    (move_plans, "propose"),
    (nodes, "touch"),
    (rounds, "record"),
    (decisions, "counts"),
    (decisions, "tell_jobs"),
    (decisions, "prune"),
]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("module", "name"), STEPS, ids=[name for _, name in STEPS])
def test_killed_at_a_step(gpus, monkeypatch, module, name, before):
    """1. worker-1 is killed at the step, so it gives no lease back; 2. the lease runs out; 3.
    worker-2 runs the next round: each job has one placement, as if nothing had happened."""
    step = getattr(module, name)

    def killed(*args, **kwargs):
        if not before:
            step(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as doomed:
        doomed.setattr(module, name, killed)
        doomed.setattr(leases, "release", lambda *_: None)
        with pytest.raises(Killed):
            a_round(decided=one_each)
    whole = Placement.objects.count()
    assert whole == 2 if Round.objects.filter(state="DONE").exists() else whole == 0

    later = NOW + timedelta(seconds=rounds.LEASE_S + 1)
    row = a_round(holder="worker-2", now=later, decided=one_each)
    assert row.state == "DONE"
    assert Placement.objects.values("job").distinct().count() == Placement.objects.count() == 2
    assert not OfflineJob.objects.exclude(state="PLACED", attempts=1).exists()
    assert not Round.objects.filter(state="RUNNING").exists()


def test_until_the_lease_of_a_killed_worker_runs_out_rounds_are_skipped(gpus, monkeypatch):
    with monkeypatch.context() as doomed:
        doomed.setattr(leases, "release", lambda *_: None)
        doomed.setattr(decisions, "write", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            a_round(decided=one_each)
    dead = Round.objects.get()
    row = a_round(holder="worker-2", now=NOW + timedelta(seconds=5), decided=one_each)
    assert row.skipped_why == f"Round {dead.pk} was under way on another worker."


# --- late, twice --------------------------------------------------------------------------


def test_a_round_that_ends_after_another_took_its_lease_places_nothing(gpus):
    """1. worker-1 decides for so long that its lease ends; 2. worker-2 takes it and runs its own
    round to the end; 3. worker-1 is done: what worker-2 placed stays, and nothing is added."""
    later = NOW + timedelta(seconds=rounds.LEASE_S + 1)

    def slowly(snapshot):
        a_round(holder="worker-2", now=later, decided=one_each)
        return one_each(snapshot)

    with pytest.raises(SomebodyWasFirst):
        a_round(decided=slowly)
    assert list(Round.objects.order_by("pk").values_list("state", flat=True)) == ["FAILED", "DONE"]
    assert Placement.objects.count() == 2


def test_a_message_that_is_delivered_twice_begins_one_round(gpus):
    call = Call("test", "message-1", NOW)
    first = a_round(call=call, decided=one_each)
    again = a_round(call=call, now=NOW + timedelta(seconds=1), decided=one_each)
    assert again.skipped_why.endswith(f"delivered twice: round {first.pk} came of it already.")


def test_a_message_that_comes_after_a_round_has_looked_is_skipped(gpus):
    late = Call("test", "message-2", NOW)
    first = a_round(now=NOW + timedelta(seconds=1), decided=one_each)
    row = a_round(call=late, now=NOW + timedelta(seconds=4), decided=one_each)
    why = f"It came 4.0 s late: round {first.pk} has looked since it was asked for."
    assert (row.state, row.skipped_why) == ("SKIPPED", why)


def test_what_was_asked_while_a_round_was_under_way_gets_a_round_of_its_own(gpus):
    a_round(decided=one_each)
    asked = Call("test", "message-3", NOW + timedelta(seconds=1))
    assert a_round(call=asked, now=NOW + timedelta(seconds=2), decided=one_each).state == "DONE"


def test_skipped_calls_do_not_pile_up(gpus, monkeypatch):
    monkeypatch.setattr(calls, "KEPT", 2)
    leases.acquire("round.enforce", "worker-2", 60, NOW)
    rows = [a_round() for _ in range(4)]
    assert set(Round.objects.values_list("pk", flat=True)) == {row.pk for row in rows[-2:]}


# --- without Redis ------------------------------------------------------------------------


def test_a_round_that_loses_redis_after_it_has_read_ends_as_if_nothing_was(
    gpus, monkeypatch, django_capture_on_commit_callbacks
):
    def lost(*args):
        raise ConnectionError("Redis is gone")

    def deciding(snapshot):
        monkeypatch.setattr(live_store, "read", lost)
        monkeypatch.setattr(doorbell, "ringer", lost)
        return one_each(snapshot)

    with django_capture_on_commit_callbacks(execute=True):
        row = a_round(decided=deciding)
    assert (row.state, Placement.objects.count()) == ("DONE", 2)
