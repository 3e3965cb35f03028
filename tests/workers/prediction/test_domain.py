from __future__ import annotations

import math

import numpy as np
import pytest

from tests.workers.prediction.made import profiles
from workers.prediction import domain


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"sm": math.nan}, "SM activity is not known"),
        ({"memory": math.nan}, "memory is not known"),
        ({"util": -0.1}, "GPU utilisation is negative"),
        ({"memory": 10.0}, "memory is above a whole card"),
        ({"bandwidth": math.inf}, "memory-bandwidth use is above a whole card"),
        ({"step_s": -1.0}, "step time is negative"),
        ({"step_s": math.inf}, "step time is without end"),
        ({"sm": 0.9, "util": 0.2}, "SM activity is above GPU utilisation"),
        ({"occupancy": 0.9, "sm": 0.1}, "occupancy is above SM activity"),
    ],
)
def test_a_profile_that_cannot_be_is_named(given, why):
    assert why in domain.impossible(profiles(1, **given))[0]


def test_what_may_be_missing_is_no_doubt():
    missing = profiles(1, occupancy=math.nan, bandwidth=math.nan, step_s=math.nan)
    assert domain.impossible(missing) == ("",)


def test_what_is_unknown_counts_as_the_most_that_it_could_be():
    sure = domain.cautious(profiles(1, util=0.6, sm=math.nan, bandwidth=-1.0))
    assert (sure.sm[0], sure.bandwidth[0]) == (0.6, 0.6)
    assert domain.cautious(profiles(1, util=math.nan, sm=0.3)).util[0] == 1.0


@pytest.mark.parametrize("share", [math.nan, -0.1, 1.1, 40.0])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="fraction"):
        domain.shares(np.array([0.5, share]))
