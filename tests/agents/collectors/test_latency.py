from __future__ import annotations

import math

import pytest

from agents.collectors import latency
from agents.collectors.latency import Pace, Window

METRIC = "http_request_duration_seconds"
LE = ("0.01", "0.05", "0.1", "0.5", "+Inf")


def histogram(*counts, handler="a"):
    """Cumulative counts under each bound of `LE`."""
    rows = [
        f'{METRIC}_bucket{{handler="{handler}",le="{le}"}} {count}'
        for le, count in zip(LE, counts, strict=True)
    ]
    return "\n".join([*rows, f'{METRIC}_count{{handler="{handler}"}} {counts[-1]}', ""])


def paces(*texts, metric=METRIC, step_s=1.0):
    window = Window(metric)
    return [window.add(latency.read(text, metric, at * step_s)) for at, text in enumerate(texts)]


def test_one_page_says_nothing_yet():
    assert paces(histogram(1, 2, 3, 4, 5)) == [Pace(None, None)]


def test_a_histogram_gives_p99_and_qps_of_what_came_between_two_pages():
    before = histogram(1_000, 1_000, 1_000, 1_000, 1_000)
    after = histogram(1_000, 1_050, 1_100, 1_100, 1_100)
    pace = paces(before, after)[-1]
    assert pace.qps == 100.0
    # The 99th of 100 lies 49/50 of the way from 0.05 s to 0.1 s.
    assert pace.p99_ms == pytest.approx(99.0)


def test_the_window_is_short():
    texts = [histogram(*[100 * second] * 5) for second in range(8)]
    assert paces(*texts)[-1].qps == 100.0
    # Ten times the load shows in full after the window.
    texts += [histogram(*[700 + 1_000 * second] * 5) for second in range(1, 4)]
    assert paces(*texts)[-1].qps == 1_000.0


def test_series_of_one_metric_add_up():
    before = histogram(0, 0, 0, 0, 0) + histogram(0, 0, 0, 0, 0, handler="b")
    after = histogram(50, 50, 50, 50, 50) + histogram(0, 0, 0, 50, 50, handler="b")
    pace = paces(before, after)[-1]
    assert pace.qps == 100.0
    assert 100.0 < pace.p99_ms <= 500.0


def test_without_requests_there_is_no_p99_and_no_load():
    assert paces(histogram(5, 5, 5, 5, 5), histogram(5, 5, 5, 5, 5))[-1] == Pace(None, 0.0)


def test_a_service_that_starts_anew_is_not_compared_with_what_it_was():
    again = [histogram(9, 9, 9, 9, 9), histogram(2, 2, 2, 2, 2), histogram(12, 12, 12, 12, 12)]
    _, fallen, third = paces(*again)
    assert fallen == Pace(None, None)
    assert third.qps == 10.0


def test_time_that_stands_still_or_goes_back_gives_nothing():
    window = Window(METRIC)
    for at in (5.0, 5.0, 4.0):
        pace = window.add(latency.read(histogram(*[100] * 5), METRIC, at))
    assert pace == Pace(None, None)


def test_pages_far_apart_are_not_compared():
    assert paces(histogram(*[0] * 5), histogram(*[100] * 5), step_s=7.0)[-1] == Pace(None, None)


def test_requests_beyond_the_last_bound_take_at_least_that_long():
    assert paces(histogram(0, 0, 0, 0, 0), histogram(0, 0, 0, 0, 100))[-1].p99_ms == 500.0


def test_buckets_that_fall_within_a_page_are_taken_as_rising():
    assert latency.quantile({0.1: 10.0, 0.5: 7.0, math.inf: 10.0}) == pytest.approx(0.099)


@pytest.mark.parametrize("buckets", [{}, {math.inf: 0.0}, {math.inf: 7.0}, {0.1: 0.0}])
def test_buckets_that_say_nothing_have_no_quantile(buckets):
    assert latency.quantile(buckets) is None


def summary(p99, count, name="nv_inference_request_summary_us"):
    return (
        f'{name}{{model="a",quantile="0.5"}} 1\n{name}{{model="a",quantile="0.99"}} {p99}\n'
        f'{name}_count{{model="a"}} {count}\n'
    )


def test_a_summary_gives_its_own_quantile_in_its_unit():
    name = "nv_inference_request_summary_us"
    assert paces(summary(8_000, 0), summary(9_000, 20), metric=name)[-1] == Pace(9.0, 20.0)


def test_a_summary_without_requests_says_nan_and_we_nothing():
    name = "nv_inference_request_summary_us"
    assert paces(summary("NaN", 0), summary("NaN", 20), metric=name)[-1] == Pace(None, 20.0)


def test_a_page_without_the_metric_is_none():
    assert latency.read("other_bucket 5\n", METRIC, 0.0) is None


@pytest.mark.parametrize(
    ("metric", "ms"),
    [("a_seconds", 1e3), ("a_ms", 1.0), ("a_milliseconds", 1.0), ("a_us", 1e-3), ("a", 1e3)],
)
def test_the_unit_is_in_the_name(metric, ms):
    assert latency.ms_in(metric) == ms


def test_the_first_known_metric_is_found():
    text = "# TYPE up gauge\n# TYPE vllm:e2e_request_latency_seconds histogram\n"
    assert latency.metric_in(text) == "vllm:e2e_request_latency_seconds"
    assert latency.metric_in("# TYPE up gauge\n") is None
