from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.workers.prediction.made import CARD, profiles, untrained
from workers.prediction import analytic
from workers.prediction.analytic import Analytic
from workers.prediction.predictor import Judgement
from workers.prediction.profiles import Profiles

HALF = np.full(4, 0.5)
CARDS = (CARD,) * 4
HOSTILE = (
    {"sm": math.nan},
    {"util": -0.5},
    {"memory": 10.0},
    {"bandwidth": 3.0},
    {"step_s": 1e9},
    {"sm": 0.9, "util": 0.1},
    {"occupancy": math.nan},
)


def judged(jobs: Profiles, cards: tuple[str, ...] = CARDS) -> Judgement:
    return untrained().judge(profiles(4), jobs, HALF, cards)


def test_a_pair_like_those_learnt_from_is_the_networks():
    told = judged(profiles(4, 1))
    assert told.source == ("network v3",) * 4
    assert told.flags == ("",) * 4
    cautious = Analytic().judge(profiles(4), profiles(4, 1), HALF, CARDS)
    assert (told.throughput != cautious.throughput).all()


@pytest.mark.parametrize("given", HOSTILE)
def test_a_hostile_profile_is_flagged_and_judged_analytically(given):
    jobs = profiles(4, 1, **given)
    told, cautious = judged(jobs), Analytic().judge(profiles(4), jobs, HALF, CARDS)
    assert all(told.flags)
    assert set(told.source) == {analytic.NAME}
    np.testing.assert_array_equal(told.throughput, cautious.throughput)
    np.testing.assert_array_equal(told.slowdown_high, cautious.slowdown_high)


@pytest.mark.parametrize("given", HOSTILE)
def test_the_scores_of_a_hostile_profile_are_the_analytic_ones(given):
    online, jobs = profiles(4), profiles(4, 1, **given)
    scores = untrained().scores(online, jobs, HALF, CARDS)
    cautious = Analytic().scores(online, jobs, HALF, CARDS)
    np.testing.assert_allclose(scores.throughput, cautious.throughput, rtol=1e-6)
    np.testing.assert_allclose(scores.slowdown, cautious.slowdown, rtol=1e-6)


def test_one_strange_row_changes_no_other():
    online = profiles(4)
    strange = replace(online, memory=np.array([*online.memory[:3], 10.0]))
    scores = [untrained().scores(one, profiles(4, 1), HALF, CARDS) for one in (online, strange)]
    same = scores[0].throughput == scores[1].throughput
    assert same[:3].all()
    assert not same[3].any()


def test_a_card_that_was_not_learnt_is_served_by_the_estimate():
    told = judged(profiles(4, 1), (CARD, "simulated:Card A", "", "Card B"))
    assert told.source == ("network v3", *[analytic.NAME] * 3)
    assert told.flags[3] == "online: Card B was not learnt"


def test_scores_are_those_of_each_pair_judged_alone_when_the_student_says_nothing():
    """What is not the student's is computed in two ways; they must be one."""
    made = untrained()
    silent = made.student._replace(out=0 * made.student.out, out_bias=0 * made.student.out_bias)
    model = made.model._replace(trust=np.zeros(2), near=np.zeros(2))
    predictor = replace(made, student=silent, model=model)
    online, jobs = profiles(4), profiles(4, 1)
    scores = predictor.scores(online, jobs, HALF, CARDS)
    told = predictor.judge(online, jobs, HALF, CARDS)
    np.testing.assert_allclose(np.diag(scores.throughput), told.throughput, atol=1e-5)
    np.testing.assert_allclose(np.diag(scores.slowdown), told.slowdown, atol=1e-5)


def test_a_side_whose_errors_nobody_knows_gets_the_analytic_band():
    made = untrained()
    endless = np.array([1.0, np.inf])
    unknown = made.model.calibration._replace(quantile=endless, least=-endless, most=endless)
    told = replace(made, model=made.model._replace(calibration=unknown)).judge(
        profiles(4), profiles(4, 1), HALF, CARDS
    )
    cautious = Analytic().judge(profiles(4), profiles(4, 1), HALF, CARDS)
    np.testing.assert_array_equal(told.slowdown_high, cautious.slowdown_high)
    assert told.source == ("network v3",) * 4


def test_every_interval_holds_its_estimate():
    told = judged(profiles(4, 1))
    assert (told.throughput_low <= told.throughput).all()
    assert (told.throughput <= told.throughput_high).all()
    assert (told.slowdown_low <= told.slowdown).all()
    assert (told.p99.low <= told.p99.ratio).all()
