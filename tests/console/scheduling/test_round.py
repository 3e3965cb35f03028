"""A round: whole or not at all, once, and with a reason for everything that it looked at."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db.models import Q
from msgspec.structs import replace as cut

from console.audit.models import Entry
from console.errors import SomebodyWasFirst
from console.evictions.models import Eviction
from console.inventory import nodes
from console.inventory.models import Gpu, Pool
from console.runs import leases
from console.scheduling import decisions, reading
from console.scheduling.models import Decision, Placement, Round
from console.workloads.models import OfflineJob
from tests.console.inventory.cast import GIB, NOW
from tests.console.scheduling.cast import (
    a_round,
    a_running,
    a_waiting_job,
    decide,
    live,
    nothing_decided,
    sharing_gpus,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpus(grid):
    found = sharing_gpus(2)
    grid.update(live(*found))
    return found


def test_a_waiting_job_is_placed_with_its_limits(gpus):
    job = a_waiting_job(saved_work_s=300)
    row = a_round()
    placement = Placement.objects.get()
    job.refresh_from_db()
    assert (row.state, row.placed, row.waiting) == ("DONE", 1, 0)
    assert (job.state, job.attempts, placement.state) == ("PLACED", 1, "DESIRED")
    assert placement.resume_work_s == 300
    assert 0 < placement.sm_share_percent <= 90
    assert job.memory_bytes <= placement.memory_quota_bytes < gpus[0].memory_bytes


def test_the_node_is_told_and_the_story_written(gpus):
    a_waiting_job()
    a_round()
    node = Placement.objects.get().gpu.node
    assert node.generation == 2
    assert Entry.objects.filter(action="round.decide").count() == 1


def test_a_round_whose_gpus_stopped_sharing_meanwhile_decides_nothing(gpus, monkeypatch):
    a_waiting_job()
    monkeypatch.setattr(reading, "has_gpus", lambda mode: True)
    Pool.objects.update(sharing_mode="observe")
    assert (a_round().state, Placement.objects.count()) == ("DONE", 0)


def test_a_round_that_changes_nothing_writes_no_story(gpus):
    a_round()
    assert not Entry.objects.filter(action="round.decide").exists()


def test_a_round_is_proven_optimal(gpus):
    for index in range(4):
        a_waiting_job(f"job-{index}", sm_percent=20 * (index + 1), gpu_util_percent=90)
    row = a_round()
    assert row.objective == pytest.approx(row.upper_bound, abs=1e-9)
    assert row.placed == 2


def test_everything_left_out_has_a_reason(gpus, grid):
    grid.update(live(*sharing_gpus(1, "node-02"), age_s=99.0))
    a_waiting_job("large", memory_bytes=999 * GIB)
    a_waiting_job("elsewhere", pools=["batch"])
    a_waiting_job("later", not_before=NOW + timedelta(seconds=60))
    row = a_round()
    told = dict(Decision.objects.filter(round=row, gpu=None).values_list("job__name", "code"))
    assert told == {"large": "memory", "elsewhere": "pool", "later": "not_before"}
    unused = Decision.objects.filter(round=row, job=None)
    assert {gpu for (gpu,) in unused.values_list("gpu")} == set(
        Gpu.objects.values_list("pk", flat=True)
    )
    assert unused.filter(gpu__node__name="node-02").get().code == "no_live_data"
    assert not Decision.objects.filter(Q(why="") | Q(code="")).exists()


def test_a_held_job_is_in_no_round(gpus):
    a_waiting_job("held", held_until=NOW + timedelta(seconds=60))
    free = a_waiting_job("free", held_until=NOW)
    row = a_round()
    assert [placement.job for placement in Placement.objects.all()] == [free]
    assert not Decision.objects.filter(round=row, job__name="held").exists()


def test_a_job_that_is_held_while_a_round_decides_is_not_placed(gpus):
    a_waiting_job()

    def decided(snapshot):
        OfflineJob.objects.update(held_until=NOW + timedelta(seconds=60))
        return decide(snapshot)

    assert a_round(decided=decided).placed == 0
    assert not Placement.objects.exists()


def test_a_waiting_job_is_told_why(gpus):
    job = a_waiting_job(memory_bytes=999 * GIB)
    a_round()
    job.refresh_from_db()
    assert job.wait_reason.startswith("It needs 999.0")


def test_a_second_round_does_not_place_the_same_job_again(gpus):
    a_waiting_job()
    a_round()
    assert a_round().placed == 0
    assert Placement.objects.count() == 1


# --- shadow -------------------------------------------------------------------------------


def test_a_shadow_round_decides_and_sends_nothing(grid):
    (gpu,) = sharing_gpus(1, mode="shadow")
    grid.update(live(gpu))
    job = a_waiting_job()
    row = a_round(Round.Kind.SHADOW)
    job.refresh_from_db()
    gpu.node.refresh_from_db()
    assert (row.placed, job.state, gpu.node.generation) == (1, "QUEUED", 1)
    assert not Placement.objects.exists()


def test_without_a_gpu_in_its_mode_there_is_no_round(gpus):
    assert a_round(Round.Kind.SHADOW) is None
    assert not Round.objects.exists()


# --- races --------------------------------------------------------------------------------


def test_of_two_workers_one_decides(gpus):
    leases.acquire("round.enforce", "worker-2", 60, NOW)
    row = a_round(holder="worker-1")
    assert (row.state, row.skipped_why) == (
        "SKIPPED",
        "Another round was under way on another worker.",
    )


def test_a_round_that_lost_its_lease_writes_nothing(gpus):
    """1. worker-1 decides for so long that its lease ends; 2. worker-2 takes it; 3. worker-1 is
    done, and must not write over what worker-2 does."""
    a_waiting_job()

    def slowly(snapshot):
        leases.acquire("round.enforce", "worker-2", 60, NOW + timedelta(seconds=61))
        return decide(snapshot)

    with pytest.raises(SomebodyWasFirst):
        a_round(decided=slowly)
    assert not Placement.objects.exists()
    assert Round.objects.get().state == "FAILED"


def while_deciding(change):
    """Decide, and let the world change before the decision is written."""

    def decided(snapshot):
        plan = decide(snapshot)
        change()
        return plan

    return decided


def test_a_job_that_another_round_placed_meanwhile_is_left_alone(gpus):
    job = a_waiting_job()
    row = a_round(decided=while_deciding(lambda: a_running(job, gpus[1])))
    assert Placement.objects.count() == 1
    assert (row.placed, row.waiting) == (0, 1)
    assert Decision.objects.get(round=row, job=job).code == "overtaken"


def test_a_gpu_that_was_taken_meanwhile_is_not_taken_twice(gpus):
    a_waiting_job("ours")

    def take_both():
        for gpu in gpus:
            a_running(a_waiting_job(f"theirs-{gpu.pk}"), gpu)

    row = a_round(decided=while_deciding(take_both))
    assert row.placed == 0
    assert OfflineJob.objects.get(name="ours").state == "QUEUED"


@pytest.mark.parametrize(
    "change",
    [
        lambda: Pool.objects.update(sharing_mode="observe"),
        lambda: Gpu.objects.update(sharing_mode="observe"),
        lambda: Gpu.objects.update(disabled=True),
        lambda: Gpu.objects.update(state="GUARDED"),
        lambda: OfflineJob.objects.update(state="CANCELLED"),
    ],
)
def test_what_a_person_changed_meanwhile_holds(gpus, change):
    a_waiting_job()
    assert a_round(decided=while_deciding(change)).placed == 0
    assert not Placement.objects.exists()


def test_a_crash_while_writing_leaves_no_half_of_a_plan(gpus, monkeypatch):
    a_waiting_job()
    monkeypatch.setattr(nodes, "touch", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        a_round()
    assert not Placement.objects.exists()
    assert OfflineJob.objects.get().state == "QUEUED"
    assert Round.objects.get().state == "FAILED"


def test_a_round_of_a_dead_worker_is_given_up(gpus):
    dead = Round.objects.create(kind="enforce", started_at=NOW)
    a_round()
    dead.refresh_from_db()
    assert (dead.state, "worker" in dead.error) == ("FAILED", True)


def test_the_lease_is_given_back_whatever_happens(gpus):
    with pytest.raises(ZeroDivisionError):
        a_round(decided=lambda snapshot: 1 / 0)
    assert a_round(holder="worker-2", decided=nothing_decided) is not None


# --- moves --------------------------------------------------------------------------------


@pytest.fixture
def crowded(gpus, grid):
    """A job that hardly runs beside its tenant, and a GPU that is free."""
    grid.update(live(gpus[0], sm_online_percent=80.0, gpu_util_percent=80.0))
    job = a_waiting_job(sm_percent=80, gpu_util_percent=80)
    return a_running(job, gpus[0], started_at=NOW - timedelta(hours=1))


def test_a_move_that_pays_is_proposed_and_its_gpu_kept_free(gpus, crowded):
    a_waiting_job("next", sm_percent=20, gpu_util_percent=20, priority=-5)
    row = a_round()
    eviction = Eviction.objects.get()
    assert (eviction.origin, eviction.to_gpu, eviction.round) == ("move", gpus[1], row)
    assert eviction.evidence["gain"] >= eviction.evidence["least_gain"]
    assert row.moves == 1
    assert Decision.objects.get(round=row, kind="move").from_gpu == gpus[0]
    assert not Placement.objects.filter(gpu=gpus[1]).exists(), "kept free until it is decided"


def test_a_move_is_proposed_once(gpus, crowded):
    a_round()
    assert a_round().moves == 0
    assert Eviction.objects.count() == 1


def test_a_job_that_was_moved_goes_where_its_gpu_was_kept_free(gpus, crowded):
    a_waiting_job("next", submitted_at=NOW - timedelta(days=1))
    a_round()
    Eviction.objects.update(state="COMPLETED", ended_at=NOW)
    Placement.objects.update(state="ENDED")
    OfflineJob.objects.filter(pk=crowded.job_id).update(state="QUEUED")
    a_round(now=NOW + timedelta(seconds=5))
    assert Placement.objects.get(job=crowded.job_id, state="DESIRED").gpu == gpus[1]


# --- what is kept -------------------------------------------------------------------------


def test_sentences_of_old_rounds_are_forgotten_and_figures_stay(gpus, monkeypatch):
    monkeypatch.setattr(decisions, "KEPT_ROUNDS", 2)
    rows = [a_round() for _ in range(4)]
    kept = set(Decision.objects.values_list("round_id", flat=True))
    assert kept == {row.pk for row in rows[-2:]}
    assert Round.objects.count() == 4


def test_a_round_knows_what_the_last_one_was_worth(gpus):
    a_waiting_job()
    first = a_round()
    second = a_round()
    assert second.previous_objective == first.objective > 0


def test_no_redis_means_no_live_data_and_not_zero(gpus, grid):
    grid.clear()
    a_waiting_job()
    assert a_round().placed == 0
    assert set(Decision.objects.filter(job=None).values_list("code", flat=True)) == {"no_live_data"}


def test_a_plan_longer_than_a_sentence_is_cut_to_fit(gpus):
    def wordy(snapshot):
        plan = decide(snapshot)
        return replace(plan, verdicts=tuple(cut(one, why="x" * 999) for one in plan.verdicts))

    assert a_round(decided=wordy).state == "DONE"


def test_a_move_that_nobody_decided_on_is_not_proposed_again_at_once(gpus, crowded):
    a_round()
    Eviction.objects.update(state="EXPIRED", ended_at=NOW)
    assert a_round(now=NOW + timedelta(seconds=30)).moves == 0
    why = Decision.objects.get(round__pk=Round.objects.latest("pk").pk, kind="keep").why
    assert "nobody decided on its last move" in why
    assert a_round(now=NOW + timedelta(hours=1)).moves == 1
