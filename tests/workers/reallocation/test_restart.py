from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from agents.wire.names import SharingMode
from console.scheduling.limits import Limits
from console.scheduling.snapshot import RunningFacts, Snapshot
from tests.workers.cast import NOW, RULES, a_gpu, a_job, a_use
from workers.prediction.analytic import Analytic
from workers.reallocation.renew import renew
from workers.reallocation.restart import HORIZON_S, PAY_BACK, Restart

HOUR = 3_600.0
ONE = UUID(int=1)
RULES_OF_MOVES = replace(RULES, move_min_gain=0.1, restart_s=60)


def running(**values) -> RunningFacts:
    facts = {
        "placement_id": ONE,
        "job": a_job(use=a_use(sm=90, util=90)),
        "gpu_id": 1,
        "share_percent": 30,
        "fixed": "",
        "left_work_s": 4 * HOUR,
        "unsaved_work_s": 0.0,
    }
    return RunningFacts(**facts | values)


def restart(now: float = 0.3, then: float = 0.7, **values) -> Restart:
    return Restart(running(**values), RULES_OF_MOVES, now, then)


def test_a_restart_that_doubles_the_speed_of_a_long_job_pays():
    assert restart().pays
    assert "be paid back after" in restart().why


def test_a_gain_below_the_policys_least_does_not_pay():
    assert not restart(then=0.35).pays
    assert "the policy asks for 0.1" in restart(then=0.35).why


def test_a_job_that_is_nearly_done_is_left_alone():
    assert not restart(left_work_s=60.0).pays
    assert "of work left" in restart(left_work_s=60.0).why


def test_work_that_would_be_lost_counts():
    assert not restart(unsaved_work_s=2 * HOUR).pays
    assert "twice into the hour that is foretold" in restart(unsaved_work_s=2 * HOUR).why


def test_a_larger_share_that_speeds_nothing_up_never_pays():
    assert not restart(then=0.3).pays
    assert restart(then=0.3).why == "A restart now would gain nothing."


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 10 * HOUR), st.floats(0, 2 * HOUR))
def test_what_pays_is_ahead_of_where_it_would_have_been(now, then, left_work_s, unsaved_work_s):
    one = restart(now, then, left_work_s=left_work_s, unsaved_work_s=unsaved_work_s)
    if one.pays:
        within_s = min(HORIZON_S, one.left_s)
        with_restart = then * within_s - one.cost_work_s
        assert with_restart >= now * within_s
        assert one.cost_work_s * PAY_BACK <= (then - now) * within_s + 1e-6


# --- all that runs ------------------------------------------------------------------------


def snapshot(peak: float, **values) -> Snapshot:
    gpu = a_gpu(1, a_use(sm=peak, util=20, bandwidth=10), rules=RULES_OF_MOVES)
    return Snapshot(NOW, SharingMode.ENFORCE, (gpu,), (), (running(**values),))


def renewed(peak: float, limits: Limits, **values):
    return renew(snapshot(peak, **values), {ONE: limits}, Analytic())[ONE]


def test_a_share_that_suits_the_load_stays():
    limits = Limits(70, 70, None)
    assert renewed(20, limits).limits == limits


def test_where_online_leaves_nothing_the_least_share_is_capped_to():
    after = renewed(95, Limits(50, 50, None)).limits
    assert (after.desired, after.duty) == (10, 20)


def test_a_larger_share_waits_and_is_proposed_when_it_pays():
    one = renewed(10, Limits(30, 30, None))
    assert one.limits.desired > 60
    assert one.limits.duty is None
    assert one.restart is not None
    assert one.restart["share_then_percent"] == one.limits.desired


def test_a_job_that_may_not_be_interrupted_only_says_what_it_would_gain():
    one = renewed(10, Limits(30, 30, None), fixed="it has only just started")
    assert one.restart is None
    assert one.pending_why


def test_a_share_that_the_node_has_not_told_yet_waits_for_nothing():
    one = renewed(10, Limits(None, 30, None))
    assert (one.pending_why, one.restart) == ("", None)


def test_nothing_that_runs_is_nothing_to_renew():
    assert renew(snapshot(10), {}, Analytic()) == {}
