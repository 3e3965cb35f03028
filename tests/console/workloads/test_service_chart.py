"""Ten minutes of a service: with and without a neighbour, and never a zero for a gap."""

from __future__ import annotations

from console.telemetry.history import SERIES, Series
from console.workloads import service_chart
from console.workloads.models import OnlineService

SERVICE = OnlineService(name="search-rank", slo_p99_ms=40)


def instance(p99: list, offline: list, qps: list | None = None) -> Series:
    values = {name: [None] * len(p99) for name in SERIES}
    values |= {"online_p99": p99, "sm_offline_percent": offline, "online_qps": qps or p99}
    return Series(1, [float(second) for second in range(len(p99))], values)


def test_the_sides_are_told_apart_moment_by_moment():
    chart = service_chart.p99(
        SERVICE, [instance([20, 22], [30, 0.0]), instance([30, 40], [None, 0])]
    )
    beside, alone = (series["values"] for series in chart["series"])
    assert beside == [20, None]
    assert alone == [30, 31]
    assert chart["thresholds"][0]["at"] == 40


def test_what_was_not_heard_is_a_gap():
    chart = service_chart.p99(SERVICE, [instance([None, 20], [10, 10])])
    assert chart["series"][0]["values"] == [None, 20]


def test_the_load_is_a_sum_and_a_gap_where_an_instance_is_missing():
    chart = service_chart.load(
        [instance([1, 1], [0, 0], [100, 110]), instance([1, 1], [0, 0], [50, None])]
    )
    assert chart["series"][0]["values"] == [150, None]


def test_a_second_that_passed_between_two_instances_is_left_out():
    first = instance([1, 1], [0, 0], [100, 110])
    second = Series(1, [1.0, 2.0], instance([1, 1], [0, 0], [50, 60]).values)
    chart = service_chart.load([first, second])
    assert (chart["x"], chart["series"][0]["values"]) == ([1.0], [160])


def test_a_service_without_samples_has_an_empty_chart_that_says_so():
    for chart in (service_chart.p99(SERVICE, []), service_chart.load([])):
        assert chart["x"] == []
        assert "No samples yet" in chart["empty"]
