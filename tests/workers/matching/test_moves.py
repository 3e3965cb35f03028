"""A running job is moved when it pays by itself, and not often."""

from __future__ import annotations

import pytest

from console.scheduling.plan import Code, Kind
from tests.workers.cast import a_gpu, a_guest, a_job, a_snapshot, a_use
from workers.matching.decide import decide

BUSY = a_use(70, 70, 10, 10)
HUNGRY = a_use(80, 80, 20)


def decided(*, guest=None, free=1, allowed=1, jobs=(), **values):
    """A hungry job beside a busy tenant, and GPUs that are free."""
    gpus = [a_gpu(1, BUSY), *(a_gpu(2 + index) for index in range(free))]
    running = a_guest(a_job(50, HUNGRY), gpus[0], **(guest or {}))
    return decide(
        a_snapshot(gpus, jobs, running=(running,), restarts_left={"web": allowed}, **values)
    )


def test_a_move_that_pays_is_wished_for():
    (move,) = decided().moves
    assert move.to_gpu_id == 2
    assert move.evidence["gain"] > move.evidence["least_gain"] >= 0.1
    assert 0 < move.evidence["pays_back_s"] < 3_600


@pytest.mark.parametrize(
    "values",
    [
        {"allowed": 0},
        {"free": 0},
        {"guest": {"fixed": "it has only just started"}},
        {"guest": {"left_work_s": 1.0}},
        {"guest": {"unsaved_work_s": 10_000.0}},
    ],
)
def test_a_move_that_does_not_pay_is_not(values):
    assert decided(**values).moves == ()


def test_a_job_that_stays_says_why():
    (kept,) = decided(guest={"fixed": "it is frozen"}).of(Kind.KEEP)
    assert kept.code is Code.FIXED
    assert "it is frozen" in kept.why


def test_a_job_is_not_moved_where_it_was_taken_off():
    assert decided(avoid=frozenset({(a_job(50).id, 2)})).moves == ()


def test_a_gpu_is_rather_given_to_a_job_that_waits_than_to_one_that_runs_as_well_elsewhere():
    """The waiting job would run as well there, and needs no restart."""
    assert decided(jobs=[a_job(1, HUNGRY)]).moves == ()
    assert len(decided(jobs=[a_job(1, HUNGRY)]).placings) == 1


def test_the_gpu_of_a_move_is_kept_free():
    plan = decided(jobs=[a_job(1, a_use(10, 10, 0), weight=0.5)])
    assert len(plan.moves) == 1
    assert plan.placings == ()


def test_only_as_many_as_are_allowed_and_each_to_a_gpu_of_its_own():
    gpus = [*(a_gpu(n, BUSY) for n in (1, 2, 3)), *(a_gpu(n) for n in (4, 5, 6))]
    running = tuple(a_guest(a_job(50 + gpu.id, HUNGRY), gpu) for gpu in gpus[:3])
    plan = decide(a_snapshot(gpus, running=running, restarts_left={"web": 2}))
    assert len(plan.moves) == len({move.to_gpu_id for move in plan.moves}) == 2


def test_a_running_job_is_worth_what_it_does_now():
    plan = decided(free=0)
    assert plan.objective == pytest.approx(plan.of(Kind.KEEP)[0].weight)
