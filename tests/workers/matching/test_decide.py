"""One round from facts to verdicts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire.names import GpuState, SharingMode
from console.scheduling.plan import WORDS, Code, Kind
from tests.workers.cast import GIB, NOW, a_gpu, a_guest, a_job, a_snapshot, a_use
from workers.matching.decide import decide


@st.composite
def snapshots(draw):
    """Small clusters with everything that can stand between a GPU and a job."""
    loads = st.sampled_from([0.0, 20.0, 45.0, 95.0])
    sizes = st.sampled_from([1.0, 8.0, 39.0])
    gpus = [
        a_gpu(
            number,
            a_use(draw(loads), draw(loads), draw(loads), draw(sizes)),
            state=draw(st.sampled_from([GpuState.HEALTHY, GpuState.HEALTHY, GpuState.GUARDED])),
            model=draw(st.sampled_from(["A100", "T4"])),
            holdback=draw(st.booleans()) and number % 3 == 0,
        )
        for number in range(1, 1 + draw(st.integers(0, 5)))
    ]
    needs = st.sampled_from([10.0, 50.0, 100.0])
    jobs = [
        a_job(
            number,
            a_use(draw(needs), draw(needs), draw(needs), draw(sizes)),
            weight=draw(st.sampled_from([1.0, 1.25])),
            gpu_models=draw(st.sampled_from([(), ("A100",)])),
        )
        for number in range(1, 1 + draw(st.integers(0, 5)))
    ]
    guests = [a_guest(a_job(100 + gpu.id), gpu) for gpu in gpus if draw(st.integers(0, 3)) == 0]
    avoid = {(job.id, gpu.id) for job in jobs[:1] for gpu in gpus[:2]}
    return a_snapshot(
        gpus,
        jobs,
        running=tuple(guests),
        avoid=frozenset(avoid),
        restarts_left={"web": draw(st.integers(0, 2))},
    )


@given(snapshots())
def test_every_gpu_and_every_job_is_told_why_once(snapshot):
    plan = decide(snapshot)
    jobs = [one.job_id for one in plan.verdicts if one.job_id]
    gpus = [
        gpu for one in plan.verdicts for gpu in (one.gpu_id, one.from_gpu_id) if gpu is not None
    ]
    running = [one.job for one in snapshot.running]
    assert sorted(jobs) == sorted(job.id for job in (*snapshot.jobs, *running))
    assert sorted(gpus) == sorted(gpu.id for gpu in snapshot.gpus)
    assert all(one.why and one.code in WORDS for one in plan.verdicts)


@given(snapshots())
def test_a_plan_is_proven_optimal_and_no_gpu_is_used_twice(snapshot):
    plan = decide(snapshot)
    assert plan.objective == pytest.approx(plan.upper_bound, abs=1e-9)
    used = [one.gpu_id for one in plan.placings] + [one.to_gpu_id for one in plan.moves]
    assert len(used) == len(set(used))
    assert len(plan.placings) == len(plan.of(Kind.PLACE))


def code_of(plan, gpu_id=None, job=None):
    found = [
        one.code
        for one in plan.verdicts
        if one.gpu_id == gpu_id and one.job_id == (job.id if job else None)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"mode": SharingMode.SHADOW}, Code.MODE),
        ({"holdback": True}, Code.HOLDBACK),
        ({"conflict": True}, Code.CONFLICT),
        ({"disabled": True}, Code.DISABLED),
        ({"unshareable_fact": "MIG is on"}, Code.UNSHAREABLE),
        ({"cordoned": True}, Code.CORDONED),
        ({"draining": True}, Code.DRAINING),
        ({"node_connected": False}, Code.UNREACHABLE),
        ({"state": GpuState.UNHEALTHY}, Code.STATE),
        ({"live_age_s": None}, Code.NO_LIVE_DATA),
        ({"live_age_s": 11.0}, Code.NO_LIVE_DATA),
        ({"headroom_percent": 4.0}, Code.HEADROOM),
        ({"online_peak_percent": 88.0}, Code.NO_SHARE),
        ({"held_for": a_job(9).id}, Code.HELD),
        ({"memory_bytes": 11 * GIB}, Code.MEMORY),
        ({"pool": "batch"}, Code.POOL),
        ({"model": "T4"}, Code.MODEL),
    ],
)
def test_why_a_gpu_is_left_out(facts, code):
    job = a_job(pools=("web",), gpu_models=("A100",))
    assert code_of(decide(a_snapshot([a_gpu(1, **facts)], [job])), gpu_id=1) is code


def test_an_imported_gpu_needs_no_live_data():
    gpu = a_gpu(imported=True, node_connected=False, live_age_s=None)
    assert len(decide(a_snapshot([gpu], [a_job()])).placings) == 1


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"pools": ("batch",)}, Code.POOL),
        ({"gpu_models": ("T4",)}, Code.MODEL),
        ({"use": a_use(gib=39)}, Code.MEMORY),
        ({"not_before": NOW + timedelta(seconds=1)}, Code.NOT_BEFORE),
    ],
)
def test_why_a_job_waits(facts, code):
    job = a_job(**facts)
    assert code_of(decide(a_snapshot([a_gpu()], [job])), job=job) is code


def test_a_job_that_would_slow_online_too_much_waits():
    gpu, job = a_gpu(online=a_use(20, 50, 100)), a_job(use=a_use(60, 60, 100))
    assert code_of(decide(a_snapshot([gpu], [job])), job=job) is Code.SLOWDOWN


def test_a_job_does_not_return_to_the_gpu_that_it_was_taken_off():
    job = a_job()
    plan = decide(a_snapshot([a_gpu(1)], [job], avoid=frozenset({(job.id, 1)})))
    assert code_of(plan, job=job) is Code.AVOID


def test_a_job_whose_wait_is_over_is_placed():
    job = a_job(not_before=NOW)
    assert len(decide(a_snapshot([a_gpu()], [job])).placings) == 1


def test_of_jobs_alike_the_oldest_goes_first():
    plan = decide(a_snapshot([a_gpu()], [a_job(2), a_job(1)]))
    assert plan.placings[0].job_id == a_job(1).id


def test_a_higher_priority_goes_first():
    plan = decide(a_snapshot([a_gpu()], [a_job(1), a_job(2, weight=1.25)]))
    assert plan.placings[0].job_id == a_job(2).id


def test_the_pair_that_was_not_chosen_is_named_with_its_price():
    jobs = [a_job(1), a_job(2, a_use(100, 100, 0))]
    plan = decide(a_snapshot([a_gpu()], jobs))
    (pair,) = plan.of(Kind.PLACE)
    (waiting,) = plan.of(Kind.WAIT)
    assert plan.rivals()[pair.gpu_id].said.startswith("Next best there: job-2")
    assert "goes to job-1" in waiting.why


def test_the_share_complements_the_peak_and_not_the_moment():
    gpu = a_gpu(online=a_use(10, 10, 0), online_peak_percent=50.0)
    (placing,) = decide(a_snapshot([gpu], [a_job()])).placings
    assert 35 < placing.share_percent <= 40  # whole parts of the card


def test_a_gpu_kept_free_takes_the_job_that_it_is_kept_for():
    gpu = a_gpu(held_for=a_job(2).id)
    plan = decide(a_snapshot([gpu], [a_job(1), a_job(2)]))
    assert [one.job_id for one in plan.placings] == [a_job(2).id]


def test_the_same_facts_give_the_same_plan():
    snapshot = a_snapshot([a_gpu(n) for n in range(9)], [a_job(n) for n in range(1, 7)])
    first, second = decide(snapshot), decide(snapshot)
    assert (first.placings, first.verdicts) == (second.placings, second.verdicts)
