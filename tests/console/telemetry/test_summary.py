from __future__ import annotations

import numpy as np

from console.telemetry import latest, summary
from tests.console.telemetry.fleet import NOW, grid


def summarised(*rows, now: float = NOW, **columns):
    made = grid(*rows, **columns)
    return summary.summarise(made, latest.cells(made, now), {"running": 3}, now)


def test_means_are_over_the_gpus_that_report():
    told = summarised({"sm_activity": 20}, {"sm_activity": 40}, {"sm_activity": None})
    assert told["sm_activity"] == 30
    assert told["live"] == 3


def test_nobody_reporting_is_missing_not_zero():
    told = summarised({"sm_activity": None, "online_p99": None})
    assert told["sm_activity"] is None
    assert told["p99_ratio"] is None


def test_silent_gpus_count_as_no_data_and_in_no_mean():
    told = summarised({"sm_activity": 80}, now=NOW + 60)
    assert (told["states"]["HEALTHY"], told["states"]["NO_DATA"]) == (0, 1)
    assert (told["sm_activity"], told["age_s"]) == (None, None)


def test_the_age_is_that_of_the_oldest_live_sample():
    made = grid({}, {}, {})
    made.at[:] = [NOW - 1, NOW - 3, NOW - 60]
    told = summary.summarise(made, latest.cells(made, NOW), {}, NOW)
    assert told["age_s"] == 3


def test_a_service_is_as_good_as_its_worst_instance():
    services = np.array([0, 0, 1, -1], np.int32)
    told = summarised(
        {"online_p99": 20}, {"online_p99": 48}, {"online_p99": 30}, {"online_p99": 400},
        service=services,
    )  # fmt: skip
    assert told["services"] == 2
    assert told["services_over_slo"] == 1
    assert told["p99_ratio"] == 0.975  # the median of 1.2 and 0.75


def test_looks_states_and_counts_are_told():
    told = summarised({}, {"sm_activity": 0, "offline_processes": 0})
    assert told["looks"]["OK"] == 1
    assert told["looks"]["ZERO"] == 1
    assert (told["guests"], told["running"]) == (1, 3)


def test_an_empty_fleet_can_be_summarised():
    told = summarised()
    assert (told["gpus"], told["sm_activity"], told["age_s"]) == (0, None, None)
