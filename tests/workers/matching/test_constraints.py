"""What may not be done is not done, and who is kept out by it is told."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from console.scheduling import priorities
from console.scheduling.plan import Code, Kind
from tests.workers.cast import GIB, RULES, a_gpu, a_guest, a_job, a_snapshot, a_use
from workers.matching.admission import MOST_ALONE
from workers.matching.decide import decide

STRICT = replace(RULES, proven_for_tier=2)


def the_wait(gpu, job, **values):
    """What is said of the only job, which waits beside the only GPU."""
    plan = decide(a_snapshot([gpu], [job], **values))
    assert plan.placings == ()
    (verdict,) = plan.of(Kind.WAIT)
    return verdict


@pytest.mark.parametrize(
    ("gpu", "job", "code"),
    [
        ({}, {"gpus": 4}, Code.GANG),
        ({}, {"labels": frozenset({"disk=local"})}, Code.LABELS),
        ({"tier": 1}, {"profile_source": "conservative"}, Code.CONSERVATIVE),
        ({"tier": 2, "rules": STRICT}, {}, Code.UNPROVEN),
        ({"cpu_free": 3.0}, {"cpu_cores": 4.0}, Code.HOST_CPU),
        (
            {"host_memory_free_bytes": 8.0 * GIB},
            {"host_memory_bytes": 9.0 * GIB},
            Code.HOST_MEMORY,
        ),
        ({"rules": replace(RULES, most_slowdown=1.0)}, {}, Code.SLOWDOWN),
    ],
)
def test_what_keeps_a_job_off_a_gpu(gpu, job, code):
    verdict = the_wait(a_gpu(**gpu), a_job(**job))
    assert verdict.code is code
    assert 20 < len(verdict.why) <= 200


@pytest.mark.parametrize(
    ("gpu", "job"),
    [
        ({"labels": frozenset({"disk=local", "rack=7"})}, {"labels": frozenset({"disk=local"})}),
        ({"tier": 2}, {"profile_source": "conservative"}),
        ({"tier": 2, "rules": STRICT}, {"proven": True}),
        ({"tier": 3, "rules": STRICT}, {}),
        ({"tier": None, "rules": STRICT}, {}),
        ({"cpu_free": None}, {"cpu_cores": 4.0}),
        ({"cpu_free": 4.0}, {"cpu_cores": 4.0}),
    ],
)
def test_what_does_not_keep_a_job_off_a_gpu(gpu, job):
    assert len(decide(a_snapshot([a_gpu(**gpu)], [a_job(**job)])).placings) == 1


def test_a_gpu_that_is_never_shared_says_for_whom():
    plan = decide(a_snapshot([a_gpu(never_share=True, service="checkout")], [a_job()]))
    (verdict,) = plan.of(Kind.UNUSED)
    assert verdict.code is Code.NEVER_SHARE
    assert "checkout" in verdict.why


def test_of_a_capped_team_those_of_the_highest_weight_go_first_then_the_oldest():
    jobs = [
        a_job(1, team="vision"),
        a_job(2, team="vision"),
        a_job(3, team="vision", weight=1.25),
        a_job(4, team="speech"),
    ]
    gpus = [a_gpu(number) for number in range(1, 6)]
    plan = decide(a_snapshot(gpus, jobs, team_room={"vision": 2}))
    assert {one.job_id.int for one in plan.placings} == {1, 3, 4}
    (waits,) = plan.of(Kind.WAIT)
    assert (waits.code, waits.job_id.int) == (Code.TEAM_CAP, 2)
    assert "vision" in waits.why


def test_a_team_that_is_full_starts_nothing():
    verdict = the_wait(a_gpu(), a_job(team="vision"), team_room={"vision": 0})
    assert verdict.code is Code.TEAM_CAP


def test_so_many_jobs_with_gpus_to_avoid_are_looked_at_and_the_rest_later():
    jobs = [a_job(number) for number in range(1, MOST_ALONE + 4)]
    avoid = frozenset((job.id, 1) for job in jobs)
    plan = decide(a_snapshot([a_gpu(1), a_gpu(2)], jobs, avoid=avoid))
    later = [one.job_id.int for one in plan.verdicts if one.code is Code.AVOID_MANY]
    assert sorted(later) == [MOST_ALONE + 1, MOST_ALONE + 2, MOST_ALONE + 3]
    assert [one.gpu_id for one in plan.placings] == [2]


@pytest.mark.parametrize(
    "running", [{"interruptions_left": 0}, {"fixed": "it has only just started"}]
)
def test_a_running_job_that_may_not_be_interrupted_stays(running):
    busy, idle = a_gpu(1, a_use(70, 70, 10, 10)), a_gpu(2)
    guest = a_guest(a_job(50, a_use(80, 80, 20)), busy, **running)
    plan = decide(a_snapshot([busy, idle], running=(guest,), restarts_left={"web": 9}))
    assert plan.moves == ()
    (kept,) = plan.of(Kind.KEEP)
    assert kept.code is Code.FIXED


def test_a_running_job_moves_off_a_cordoned_gpu_but_nobody_takes_its_place():
    busy = a_gpu(1, a_use(70, 70, 10, 10), cordoned=True)
    guest = a_guest(a_job(50, a_use(80, 80, 20)), busy)
    jobs = [a_job(number) for number in (1, 2)]
    plan = decide(a_snapshot([busy, a_gpu(2)], jobs, running=(guest,), restarts_left={"web": 9}))
    assert all(one.gpu_id != 1 for one in plan.placings)
    assert not [one for one in plan.of(Kind.WAIT) if one.code is Code.FOLLOWS]


def test_a_gpu_kept_for_a_job_that_still_runs_is_left_alone():
    mover = a_job(50)
    gpus = [a_gpu(1), a_gpu(2, held_for=mover.id)]
    guest = a_guest(mover, gpus[0], fixed="an eviction of it is open")
    plan = decide(a_snapshot(gpus, [a_job(1)], running=(guest,)))
    assert plan.placings == ()
    (held,) = plan.of(Kind.UNUSED)
    assert held.code is Code.HELD


# --- what would change it -----------------------------------------------------------------


def test_a_job_that_is_too_large_is_told_how_much_less_would_do():
    gpus = [a_gpu(1), a_gpu(2), a_gpu(3, online=a_use(20, 20, 10, 30))]
    plan = decide(a_snapshot(gpus, [a_job(use=a_use(gib=30))]))
    (verdict,) = plan.of(Kind.WAIT)
    assert "2 GPUs would fit with 2.0\u00a0GiB less" in verdict.why


def test_a_job_whose_pool_is_closed_is_told_why_that_is():
    gpus = [
        a_gpu(1, pool="batch", cordoned=True),
        a_gpu(2, pool="batch", cordoned=True),
        a_gpu(3, pool="batch", holdback=True),
        a_gpu(4),
    ]
    plan = decide(a_snapshot(gpus, [a_job(pools=("batch",))]))
    (verdict,) = plan.of(Kind.WAIT)
    assert "0 of 3 GPUs open (2 × node cordoned, 1 × held back as control)" in verdict.why


def test_gpus_whose_jobs_may_not_move_are_told_as_taken():
    gpus = [a_gpu(1), a_gpu(2), a_gpu(3, holdback=True)]
    running = tuple(a_guest(a_job(number), gpus[number]) for number in (0, 1))
    plan = decide(a_snapshot(gpus, [a_job(9)], running=running))
    (verdict,) = plan.of(Kind.WAIT)
    assert "0 of 3 GPUs open (2 × taken by a running job, 1 × held back" in verdict.why


def test_a_job_that_is_not_proven_is_told_where_it_would_fit():
    gpus = [a_gpu(number, tier=1, rules=STRICT) for number in (1, 2)]
    (verdict,) = decide(a_snapshot(gpus, [a_job()])).of(Kind.WAIT)
    assert "2 GPUs would fit once it has run" in verdict.why


@pytest.mark.parametrize("rival", [0, 1, 3])
def test_the_priority_that_is_named_would_do(rival):
    gpu, other = a_gpu(), a_job(1, a_use(30, 30, 10), weight=priorities.weight_of(rival))
    poor = a_job(2, a_use(90, 90, 40))
    (verdict,) = decide(a_snapshot([gpu], [other, poor])).of(Kind.WAIT)
    assert verdict.job_id == UUID(int=2)
    named = int(verdict.why.split("with priority ")[1].split(" ")[0])
    for priority, goes_first in ((named, True), (named - 1, False)):
        raised = replace(poor, weight=priorities.weight_of(priority))
        (placing,) = decide(a_snapshot([gpu], [other, raised])).placings
        assert (placing.job_id == poor.id) is goes_first
