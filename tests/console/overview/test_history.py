from __future__ import annotations

import pytest

from console.overview import history
from tests.console.overview.cast import a_sample


def test_a_mean_weighs_pools_by_the_gpus_that_report():
    (point,) = history.fleet(
        [
            a_sample(pool=1, reporting=30, sm_activity_percent=20),
            a_sample(pool=2, reporting=10, sm_activity_percent=60),
        ]
    )
    assert point.sm_activity_percent == 30
    assert point.reporting == 40


def test_a_pool_that_does_not_report_a_signal_is_left_out_of_its_mean():
    (point,) = history.fleet([a_sample(pool=1), a_sample(pool=2, sm_activity_percent=None)])
    assert point.sm_activity_percent == 40


def test_a_signal_that_nobody_reports_is_missing():
    (point,) = history.fleet([a_sample(sm_activity_percent=None, online_p99_slo_ratio=None)])
    assert (point.sm_activity_percent, point.p99_percent_of_slo) == (None, None)


def test_the_gain_is_what_ran_less_what_evictions_cost():
    first, last = history.fleet(
        [
            a_sample(0, equivalent_gpu_s_total=7200, lost_work_s_total=100),
            a_sample(
                10, equivalent_gpu_s_total=43200, lost_work_s_total=3700, restart_s_total=1800
            ),
        ]
    )
    assert first.gain.net == 0
    assert (last.gain.run, last.gain.lost, last.gain.restarts) == (10, 1, 0.5)
    assert last.gain.net == 8.5


def test_a_pool_that_is_late_does_not_take_back_what_it_gained():
    points = history.fleet(
        [
            a_sample(0, pool=1),
            a_sample(0, pool=2),
            a_sample(10, pool=1, equivalent_gpu_s_total=3600),
            a_sample(10, pool=2, equivalent_gpu_s_total=3600),
            a_sample(20, pool=1, equivalent_gpu_s_total=7200),
        ]
    )
    assert [point.gain.run for point in points] == [0, 2, 3]


def test_the_baseline_weighs_pools_by_their_gpus():
    found = history.baseline(
        [
            (30, {"sm_activity_percent": 20, "online_p99_slo_ratio": 0.5}),
            (10, {"sm_activity_percent": 60, "online_p99_slo_ratio": None}),
        ]
    )
    assert found.sm_activity_percent == 30
    assert found.p99_percent_of_slo == 50
    assert found.memory_percent is None


@pytest.mark.parametrize("pairs", [[], [(None, 3)], [(5, 0)]])
def test_the_mean_of_nothing_is_missing(pairs):
    assert history.weighted(pairs) is None


def test_the_worst_service_is_the_worst_of_any_pool() -> None:
    samples = [
        a_sample(pool=1, online_p99_slo_ratio_worst=0.9),
        a_sample(pool=2, online_p99_slo_ratio_worst=1.4),
        a_sample(pool=3, online_p99_slo_ratio_worst=None),
    ]
    assert history.fleet(samples)[0].worst_p99_percent_of_slo == pytest.approx(140)
