"""When a version takes over by itself, when it drifts, and when the next one is learnt."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from console.errors import IllegalTransition
from console.predictor import drift, lifecycle, promotion, schedule
from console.predictor.lifecycle import Event, State
from console.predictor.schedule import Cause, Facts
from tests.console.inventory.cast import NOW
from tests.console.predictor.cast import a_report

IN_FORCE = "version 3"


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (a_report(network=0.12), "always the mean"),
        (a_report(network=0.05, active=0.05), "not better by 5%"),
        (a_report(network=0.049, active=0.05), "not better by 5%"),
        (a_report(network=0.1, analytic=0.1), "not better by 5%"),
        (
            a_report(online={"network": {"mae": 0.2}, "analytic": {"mae": 0.1}}),
            "the online side's slow-down is foretold worse: 0.200 against 0.100",
        ),
        (a_report(counts={"observations": 100}), "100 observations, fewer than"),
        (a_report(counts={"pairs": 3}), "3 pairs, fewer than"),
        (a_report(counts={"held_out": 5}), "5 held out, fewer than"),
    ],
)
def test_a_version_that_is_not_clearly_better_stays_a_candidate(report, why):
    found = promotion.verdict(report, IN_FORCE)
    assert not found.promote
    assert why in found.why


def test_a_better_version_takes_over_from_the_version_or_the_estimate():
    over_version = promotion.verdict(a_report(network=0.04, active=0.05), IN_FORCE)
    assert over_version.promote
    assert over_version.why == "error 0.040 against 0.050 of version 3, on the same hold-out"
    assert promotion.verdict(a_report(network=0.04, analytic=0.12), "the estimate").promote


def test_only_the_steps_of_the_table_lead_from_state_to_state():
    for state in State:
        for event in Event:
            if (state, event) in lifecycle.TRANSITIONS:
                assert lifecycle.next_state(state, event) is lifecycle.TRANSITIONS[state, event]
            else:
                with pytest.raises(IllegalTransition):
                    lifecycle.next_state(state, event)


@pytest.mark.parametrize(
    ("recent", "n", "drifted"),
    [(0.10, 200, True), (0.07, 200, False), (0.10, 10, False), (0.061, 200, True)],
)
def test_a_version_drifts_when_it_does_clearly_worse_than_on_its_hold_out(recent, n, drifted):
    assert drift.has_drifted(recent, n, 0.04 if recent != 0.07 else 0.05) is drifted


def test_a_very_good_version_does_not_drift_for_nothing():
    assert not drift.has_drifted(0.02, 200, 0.01)


def test_the_estimate_never_drifts():
    assert not drift.has_drifted(0.5, 200, None)


PERIOD_S = 3_600.0
ENOUGH = Facts(True, False, 1_000, 60, 400, NOW - timedelta(hours=2), False)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (ENOUGH, Cause.SCHEDULE),
        (replace(ENOUGH, can_train=False), None),
        (replace(ENOUGH, is_training=True), None),
        (replace(ENOUGH, observations=200), None),
        (replace(ENOUGH, pairs=4), None),
        (replace(ENOUGH, new=100), None),
        (replace(ENOUGH, since=None), None),
        (replace(ENOUGH, since=NOW - timedelta(minutes=40)), None),
        (replace(ENOUGH, since=NOW - timedelta(minutes=40), drifted=True), Cause.DRIFT),
        (replace(ENOUGH, since=NOW - timedelta(minutes=10), drifted=True), None),
    ],
)
def test_a_retraining_is_due_after_a_period_with_enough_that_is_new(facts, cause):
    assert schedule.due(facts, PERIOD_S, NOW) is cause
