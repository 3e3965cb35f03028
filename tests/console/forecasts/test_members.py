"""The series of a service are the mean of those of its GPUs, where enough of them were measured."""

from __future__ import annotations

import numpy as np

from console.forecasts.members import members
from console.forecasts.packing import MISSING

SEARCH, ADS = 3, 9


def steps(*rows: tuple[int, ...]) -> np.ndarray:
    """Bytes of half a percent, a row a bin."""
    return np.array(rows, np.uint8)


def test_a_service_is_the_mean_of_its_gpus():
    of = members([(ADS, 2), (SEARCH, 0), (SEARCH, 1)], width=3)
    assert of.services.tolist() == [SEARCH, ADS]
    assert of.means(steps((20, 60, 100), (0, 0, 4))).tolist() == [[20, 0], [50, 2]]


def test_a_mean_over_less_than_half_of_the_gpus_is_missing():
    of = members([(SEARCH, gpu) for gpu in range(3)], width=3)
    found = of.means(steps((20, MISSING, MISSING), (20, 40, MISSING)))
    assert np.isnan(found[0, 0])
    assert found[0, 1] == 15


def test_a_gpu_of_two_services_counts_for_both():
    of = members([(SEARCH, 0), (ADS, 0), (ADS, 0)], width=1)
    assert of.counts.tolist() == [1, 1]
    assert of.means(steps((50,))).tolist() == [[25], [25]]


def test_without_services_there_is_nothing():
    of = members([], width=4)
    assert of.means(steps((1, 2, 3, 4))).shape == (0, 1)


def test_a_gpu_that_was_never_seen_has_no_series_yet():
    assert members([(SEARCH, 7)], width=4).services.tolist() == []
