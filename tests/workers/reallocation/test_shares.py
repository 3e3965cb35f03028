from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.scheduling.limits import Limits
from workers.prediction.predictor import Judgement, Scores
from workers.prediction.profiles import Profiles
from workers.prediction.queueing import Tail
from workers.reallocation import hardware, shares

percent = st.floats(0, 100)
A100 = "NVIDIA A100-SXM4-80GB"
models = st.sampled_from([A100, "Tesla T4", "NVIDIA H100 PCIe", "NVIDIA L40S", "a card unknown"])


def complement(peak: float, reserve: float = 10.0) -> float:
    return float(shares.complement(np.array([peak]), np.array([reserve]))[0])


@pytest.mark.parametrize(
    ("peak", "share"), [(0, 90), (20, 70), (47, 40), (80, 10), (81, 0), (100, 0)]
)
def test_the_share_is_what_online_leaves(peak, share):
    assert complement(peak) == share


@given(percent, percent)
def test_online_its_reserve_and_the_share_fit_on_the_card(peak, reserve):
    share = complement(peak, reserve)
    assert share == 0 or share + peak + reserve <= 100 + 1e-9
    assert share % shares.STEP == 0
    assert share == 0 or shares.LEAST <= share <= shares.MOST


# --- what the card makes of it ------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "sms"),
    [
        (A100, 108),
        (f"simulated:{A100}", 108),
        ("Tesla T4", 40),
        ("NVIDIA H100 80GB HBM3", 132),
        ("NVIDIA H100 PCIe", 114),
        ("NVIDIA A10", 72),
        ("a card unknown", None),
    ],
)
def test_the_sms_of_a_card_are_known_by_its_name(model, sms):
    assert hardware.sms_of(model) == sms


@given(st.integers(2, 18), models)
def test_a_share_is_whole_pairs_of_sms_and_never_more_than_was_left(steps, model):
    left = steps * shares.STEP
    share = float(hardware.whole(np.array([left]), (model,))[0])
    sms = hardware.sms_of(model)
    assert share <= left
    if sms:
        granted = int(share * sms / 100)
        assert granted % hardware.SMS_PER_TPC == 0
        assert granted + hardware.SMS_PER_TPC > left * sms / 100 - 1e-6


# --- a smaller share where it pays --------------------------------------------------------


class Law:
    """A predictor whose throughput and slowdown are those functions of the share."""

    name = "a law"

    def __init__(self, throughput, slowdown):
        self._throughput, self._slowdown = throughput, slowdown

    def score_pairs(self, online, jobs, share, gpu_model):
        return Scores(self._throughput(share), self._slowdown(share))

    def judge(self, online, jobs, share, gpu_model):
        t, d = self._throughput(share), self._slowdown(share)
        words = ("law",) * len(share)
        return Judgement(t, t, t, d, d, d, Tail(d, d, d), words, words)


def some(count: int, sm: float = np.nan) -> Profiles:
    column = np.full(count, sm)
    return Profiles(column, column, column, column, column, column, ("A100",) * count)


def best(law: Law, most: float, sm: float = np.nan, worth=lambda t, d: t) -> float:
    count = np.array([most])
    made = shares.best(law, some(1), some(1, sm), count, ("a card unknown",), worth)
    assert made.judgement.source == ("law",)
    return float(made.share_percent[0])


def test_a_job_that_needs_every_sm_gets_the_whole_complement():
    assert best(Law(lambda s: s, lambda s: 1 + s), 60) == 60


def test_a_share_that_hardly_speeds_the_job_up_is_left_to_online():
    assert best(Law(lambda s: np.minimum(s, 0.30), lambda s: 1 + s / 2), 60) == 30


def test_a_job_gets_what_it_needs_when_the_rest_only_harms():
    assert best(Law(lambda s: np.minimum(s, 0.25), lambda s: 1 + s / 2), 80, sm=0.23) == 25
    assert best(Law(lambda s: np.minimum(s, 0.35), lambda s: 1 + s / 2), 50, sm=0.33) == 35


def test_online_that_notices_nothing_gives_nothing_up_for_it():
    assert best(Law(lambda s: np.minimum(s, 0.30), np.ones_like), 60) == 60


def test_a_share_within_the_policys_bound_is_found_below_the_complement():
    forbids = lambda t, d: np.where(d > 1.25, 0.0, t)  # noqa: E731
    assert best(Law(lambda s: s, lambda s: 1 + s / 2), 60, worth=forbids) == 45


def test_no_share_is_chosen_where_online_leaves_none():
    with pytest.raises(ValueError, match="leaves less"):
        best(Law(np.copy, np.ones_like), 5)


@given(
    st.lists(
        st.tuples(st.integers(2, 18), st.none() | st.floats(0, 1), models), min_size=1, max_size=8
    ),
    st.floats(0.1, 3),
    st.floats(0, 2),
)
def test_a_chosen_share_is_never_above_the_complement_or_below_the_least(pairs, power, harm):
    most = np.array([steps * shares.STEP for steps, _, _ in pairs])
    need = np.array([np.nan if sm is None else sm for _, sm, _ in pairs])
    law = Law(lambda s: s**power, lambda s: 1 + harm * s)
    names = tuple(model for _, _, model in pairs)
    jobs = Profiles(need, need, need, need, need, need, names)
    share = shares.best(law, some(len(pairs)), jobs, most, names, lambda t, d: t / d).share_percent
    assert (share <= most).all()
    # A card of few SMs rounds the least down by less than one pair.
    assert (share > shares.LEAST - 5).all()


# --- limits that follow -------------------------------------------------------------------


def test_noise_changes_nothing():
    limits = Limits(started=60, desired=60, duty=None)
    assert shares.target(limits, 55) == limits


def test_a_rise_of_the_load_caps_the_duty_at_once():
    limits = shares.target(Limits(60, 60, None), 30)
    assert limits == Limits(started=60, desired=30, duty=50)


def test_a_fall_of_the_load_waits_for_the_next_start():
    limits = shares.target(Limits(30, 30, None), 80)
    assert limits == Limits(started=30, desired=80, duty=None)


def test_a_share_nobody_has_told_yet_has_no_cap():
    assert shares.target(Limits(None, 60, None), 30).duty is None


@given(st.none() | percent, percent, percent)
def test_asked_again_nothing_more_changes(started, desired, share):
    once = shares.target(Limits(started, desired, None), share)
    assert shares.target(once, share) == once


@given(st.floats(20, 80), st.lists(st.floats(-4.9, 4.9), min_size=1, max_size=30))
def test_noise_around_any_level_moves_the_share_once_at_most(level, noise):
    limits = Limits(50, 50, None)
    seen = []
    for wobble in noise:
        limits = shares.target(limits, level + wobble)
        seen.append(limits.desired)
    assert len(set(seen)) <= 2
    assert seen == sorted(seen, key=lambda share: share != seen[0])
