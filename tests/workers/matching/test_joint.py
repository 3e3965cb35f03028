"""Running and waiting jobs in one matching: as good as any of single GPUs and jobs, and legal."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from uuid import UUID

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from console.scheduling.plan import Code, Kind
from tests.workers.cast import NOW, RULES, a_gpu, a_guest, a_job, a_snapshot, a_use
from tests.workers.matching import singles
from workers.matching.admission import admit
from workers.matching.decide import COLD, decide
from workers.matching.matched import match
from workers.matching.memory import Memory
from workers.matching.problem import problem_of

LOADS = st.sampled_from([0.0, 20.0, 45.0, 70.0, 95.0])
NEEDS = st.sampled_from([10.0, 50.0, 100.0])


# Whole decisions take milliseconds each.
FEW = settings(max_examples=settings.default.max_examples // 3)
ENOUGH = st.just(99)


@st.composite
def fleets(draw, restarts=ENOUGH):
    """Small, with running jobs, ties, and everything that can stand between a GPU and a job."""
    gpus = [
        a_gpu(
            number,
            a_use(draw(LOADS), 95.0, draw(LOADS), draw(st.sampled_from([1.0, 20.0]))),
            model=draw(st.sampled_from(["A100", "T4"])),
            pool=draw(st.sampled_from(["web", "batch"])),
            tier=draw(st.sampled_from([None, 1, 2])),
            cpu_free=draw(st.sampled_from([None, 2.0])),
            cordoned=draw(st.integers(0, 5)) == 0,
            rules=RULES,
        )
        for number in range(1, 1 + draw(st.integers(1, 5)))
    ]
    jobs = [a_kind_of_job(draw, number) for number in range(1, 1 + draw(st.integers(0, 4)))]
    guests = [
        a_guest(
            a_kind_of_job(draw, 100 + gpu.id),
            gpu,
            share_percent=draw(st.sampled_from([20.0, 90.0])),
            fixed=draw(st.sampled_from(["", "", "it is frozen"])),
            unsaved_work_s=draw(st.sampled_from([0.0, 2_000.0])),
        )
        for gpu in gpus
        if draw(st.booleans())
    ]
    everyone = [*jobs, *(one.job for one in guests)]
    avoid = draw(
        st.frozensets(
            st.tuples(st.sampled_from([job.id for job in everyone]), st.integers(1, 5)), max_size=2
        )
        if everyone
        else st.just(frozenset())
    )
    left = {"web": draw(restarts), "batch": draw(restarts)}
    return a_snapshot(gpus, jobs, running=tuple(guests), avoid=avoid, restarts_left=left)


def a_kind_of_job(draw, number):
    need = draw(NEEDS)
    return a_job(
        number,
        a_use(need, 100.0, draw(NEEDS), draw(st.sampled_from([1.0, 30.0]))),
        weight=draw(st.sampled_from([1.0, 1.25])),
        submitted_at=NOW - timedelta(hours=draw(st.sampled_from([0, 1, 30]))),
        gpu_models=draw(st.sampled_from([(), (), ("A100",)])),
        proven=draw(st.booleans()),
        profile_source=draw(st.sampled_from(["user", "conservative"])),
        cpu_cores=draw(st.sampled_from([None, None, 4.0])),
    )


class NoClock:
    def phase(self, name):
        return nullcontext()

    def left_s(self):
        return 60.0


def matched(snapshot, prices=None):
    problem = problem_of(admit(snapshot), snapshot, COLD, Memory())
    return match(problem, snapshot.restarts_left, prices or {}, NoClock())


@FEW
@given(fleets())
def test_no_matching_of_single_gpus_and_jobs_is_worth_more(snapshot):
    made = matched(snapshot)
    _, _, worth = singles.table(snapshot, made.problem.field)
    seat, job = every_pair(made)
    assert len(set(seat)) == len(seat)
    assert len(set(job)) == len(job)
    assert (worth[seat, job] > 0).all()
    assert int(worth[seat, job].sum()) == singles.optimum(worth)
    assert made.proof.gap == 0


def every_pair(made):
    """Seats and jobs, the latter as numbered by `singles.table`: those that wait come first."""
    deal, guests = made.deal, made.problem.guests
    seat = [guests.seat[deal.kept], deal.to, deal.placed.seat, deal.following.seat]
    job = [guests.job[deal.kept], guests.job[deal.moved], deal.placed.job, deal.following.job]
    return np.concatenate(seat), np.concatenate(job)


@FEW
@given(fleets(restarts=st.integers(0, 3)))
def test_a_plan_is_legal_proven_and_told_completely(snapshot):
    plan = decide(snapshot)
    assert plan.objective == plan.upper_bound
    jobs = [one.job_id for one in plan.verdicts if one.job_id]
    gpus = [gpu for one in plan.verdicts for gpu in (one.gpu_id, one.from_gpu_id) if gpu]
    running = {one.job.id: one.gpu_id for one in snapshot.running}
    moving = {one.job_id: one for one in plan.moves}
    assert sorted(jobs) == sorted([*running, *(job.id for job in snapshot.jobs)])
    targets = {one.to_gpu_id for one in plan.moves}
    assert not [gpu for gpu, n in Counter(gpus).items() if n > 1 and gpu not in targets]
    assert set(gpus) == {gpu.id for gpu in snapshot.gpus}
    after = {job: gpu for job, gpu in running.items() if job not in moving}
    after |= {job: one.to_gpu_id for job, one in moving.items()}
    after |= {one.job_id: one.gpu_id for one in plan.placings}
    assert len(set(after.values())) == len(after)
    assert set(running) <= set(after), "a running job was left without a GPU"
    assert not {one.gpu_id for one in plan.placings} & set(running.values())


@FEW
@given(fleets(restarts=st.integers(0, 2)))
def test_no_pool_restarts_more_than_it_has_left(snapshot):
    plan = decide(snapshot)
    pools = {gpu.id: gpu.pool for gpu in snapshot.gpus}
    used = Counter(pools[one.from_gpu_id] for one in plan.moves)
    assert all(count <= snapshot.restarts_left[pool] for pool, count in used.items())
    for one in plan.moves:
        chain = [other for other in plan.moves if other.chain == one.chain]
        leaving = {other.placement_id: other.from_gpu_id for other in chain}
        assert one.after is None or leaving[one.after] == one.to_gpu_id
        taken = {other.gpu_id for other in snapshot.running}
        assert (one.after is None) == (one.to_gpu_id not in taken)


@FEW
@given(fleets(), st.randoms(use_true_random=False))
def test_whatever_is_remembered_the_plan_is_worth_the_same(snapshot, random):
    cold = matched(snapshot)
    prices = {key: random.randint(0, 9**6) for key in cold.problem.classes.key}
    warm = matched(snapshot, prices)
    assert warm.proof.value == warm.proof.upper_bound == cold.proof.value


@FEW
@given(fleets(restarts=st.integers(0, 2)))
def test_the_same_facts_give_the_same_plan(snapshot):
    first, second = decide(snapshot), decide(snapshot)
    assert (first.placings, first.moves, first.verdicts) == (
        second.placings,
        second.moves,
        second.verdicts,
    )


BUSY, HUNGRY = a_use(70, 70, 10, 10), a_use(80, 80, 20)


def test_a_waiting_job_gets_the_only_gpu_it_fits_on_when_a_running_one_makes_room():
    large, small = a_gpu(1), a_gpu(2, memory_bytes=20 << 30, online=a_use(20, 20, 10, 5))
    running = a_guest(a_job(50, a_use(gib=8)), large)
    big = a_job(1, a_use(gib=25))
    plan = decide(a_snapshot([large, small], [big], running=(running,), restarts_left={"web": 1}))
    (move,) = plan.moves
    assert (move.from_gpu_id, move.to_gpu_id, move.after) == (1, 2, None)
    assert "job-1" in move.why
    (waits,) = plan.of(Kind.WAIT)
    assert (waits.code, waits.job_id) == (Code.FOLLOWS, big.id)
    assert plan.placings == ()


def test_a_running_job_is_not_pushed_out_by_one_of_a_higher_priority():
    gpu = a_gpu()
    running = a_guest(a_job(50), gpu)
    jobs = [a_job(1, weight=9.0)]
    plan = decide(a_snapshot([gpu], jobs, running=(running,), restarts_left={"web": 9}))
    assert [one.job_id for one in plan.of(Kind.KEEP)] == [running.job.id]


def chain_of_three():
    """Each guest would gain on the GPU of the next, the last one on a free GPU."""
    gpus = [
        a_gpu(1, a_use(60, 95, 0)),
        a_gpu(2, a_use(40, 95, 0)),
        a_gpu(3, a_use(20, 95, 0)),
        a_gpu(4, a_use(0, 0, 0)),
    ]
    uses = [a_use(10, 100, 10), a_use(60, 100, 10), a_use(100, 100, 10)]
    guests = [a_guest(a_job(50 + n, use), gpus[n]) for n, use in enumerate(uses)]
    return gpus, tuple(guests)


def test_of_a_chain_only_as_much_is_moved_as_may_be_restarted_from_its_free_end():
    gpus, guests = chain_of_three()
    whole = decide(a_snapshot(gpus, running=guests, restarts_left={"web": 9}))
    for left in range(len(whole.moves)):
        plan = decide(a_snapshot(gpus, running=guests, restarts_left={"web": left}))
        assert len(plan.moves) <= left
        assert plan.objective == plan.upper_bound <= whole.objective
    assert decide(a_snapshot(gpus, running=guests, restarts_left={"web": 1})).moves


def test_a_job_whose_move_was_trimmed_says_so():
    gpus = [*(a_gpu(n, BUSY) for n in (1, 2)), *(a_gpu(n) for n in (3, 4))]
    running = tuple(a_guest(a_job(50 + gpu.id, HUNGRY), gpu) for gpu in gpus[:2])
    plan = decide(a_snapshot(gpus, running=running, restarts_left={"web": 1}))
    (kept,) = plan.of(Kind.KEEP)
    assert kept.code is Code.FIXED
    assert "no restart is left" in kept.why


def test_of_running_jobs_that_are_alike_the_one_that_would_lose_least_moves():
    gpus = [*(a_gpu(n, BUSY) for n in (1, 2, 3)), a_gpu(4)]
    running = tuple(
        a_guest(a_job(50 + gpu.id, HUNGRY), gpu, unsaved_work_s=unsaved)
        for gpu, unsaved in zip(gpus, (300.0, 10.0, 200.0), strict=False)
    )
    snapshot = a_snapshot(gpus, running=running, restarts_left={"web": 3})
    assert sorted(matched(snapshot).problem.rows.count.tolist()) == [1, 3]
    assert [one.from_gpu_id for one in decide(snapshot).moves] == [2]


def test_a_move_that_waits_for_open_ones_does_not_blame_the_hour():
    gpus = [*(a_gpu(n, BUSY) for n in (1, 2)), *(a_gpu(n) for n in (3, 4))]
    running = tuple(a_guest(a_job(50 + gpu.id, HUNGRY), gpu) for gpu in gpus[:2])
    for left, why in ((1, "so many may be open"), (0, "earlier moves")):
        web = {"restarts_left": {"web": left}, "moves_open": frozenset({"web"})}
        kept = decide(a_snapshot(gpus, running=running, **web)).of(Kind.KEEP)[0]
        assert kept.code is Code.FIXED
        assert why in kept.why
        assert "hour" not in kept.why


def test_a_round_that_is_late_keeps_all_that_runs_and_does_nothing_else():
    gpus = [a_gpu(1, BUSY), a_gpu(2)]
    running = (a_guest(a_job(50, HUNGRY), gpus[0]),)
    snapshot = a_snapshot(gpus, [a_job(1)], running=running, restarts_left={"web": 1})
    plan = decide(snapshot, budget_s=0.0)
    assert plan.late
    assert plan.upper_bound is None
    assert (plan.placings, plan.moves) == ((), ())
    assert {one.code for one in plan.verdicts} == {Code.LATE}
    assert len(plan.verdicts) == 3


def test_time_that_runs_out_while_solving_makes_the_round_late():
    ticks = iter([0.0, 0.0, 0.0, 5.0, 30.0])
    plan = decide(a_snapshot([a_gpu()], [a_job()]), clock=lambda: next(ticks, 30.0))
    assert plan.late


def test_the_longest_waiting_of_a_class_goes_first_and_is_worth_more():
    jobs = [a_job(1, submitted_at=NOW), a_job(2, submitted_at=NOW - timedelta(hours=5))]
    (placing,) = decide(a_snapshot([a_gpu()], jobs)).placings
    assert placing.job_id == UUID(int=2)


def test_a_job_that_has_waited_long_passes_one_that_is_worth_a_little_more():
    old = a_job(1, a_use(60, 60, 20), submitted_at=NOW - timedelta(hours=20))
    new = a_job(2, a_use(50, 50, 20), submitted_at=NOW)
    (placing,) = decide(a_snapshot([a_gpu()], [new, old])).placings
    assert placing.job_id == old.id
    (young,) = decide(a_snapshot([a_gpu()], [new, old], aging_per_hour=0.0)).placings
    assert young.job_id == new.id
