from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.scheduling.limits import Limits, Load
from workers.reallocation import shares

percent = st.floats(0, 100)


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


def test_noise_changes_nothing():
    limits = Limits(started=60, desired=60, duty=None)
    assert shares.target(limits, Load(peak=34, reserve=10)) == limits


def test_a_rise_of_the_load_caps_the_duty_at_once():
    limits = shares.target(Limits(60, 60, None), Load(peak=60, reserve=10))
    assert limits == Limits(started=60, desired=30, duty=50)


def test_a_fall_of_the_load_waits_for_the_next_start():
    limits = shares.target(Limits(30, 30, None), Load(peak=10, reserve=10))
    assert limits == Limits(started=30, desired=80, duty=None)


def test_a_share_nobody_has_told_yet_has_no_cap():
    assert shares.target(Limits(None, 60, None), Load(60, 10)).duty is None


@given(st.none() | percent, percent, percent)
def test_asked_again_nothing_more_changes(started, desired, peak):
    load = Load(peak, 10)
    once = shares.target(Limits(started, desired, None), load)
    assert shares.target(once, load) == once
