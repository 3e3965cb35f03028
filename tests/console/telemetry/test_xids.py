from __future__ import annotations

from datetime import UTC, datetime

import pytest

from console.history.points import Band, Chart
from console.telemetry import xids
from console.telemetry.xids import Xid

DAY_S, QUARTER_S = 86_400.0, 900


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def chart(*codes: float | None, samples: int = QUARTER_S) -> Chart:
    """A quarter of an hour for each; None: nobody told of one then."""
    band = Band(list(codes), list(codes), list(codes))
    times = [float(n * QUARTER_S) for n in range(len(codes))]
    known, off = [samples] * len(codes), [False] * len(codes)
    return Chart("15 min", QUARTER_S, times, {"xid": band}, known, 1, off)


def test_none_is_said_of_a_span_that_is_known_as_a_whole():
    found = xids.week(chart(*[0.0] * 96), [], DAY_S)
    assert (found.newest, found.is_whole) == (None, True)


@pytest.mark.parametrize("codes", [[None] * 96, [0.0] * 90 + [None] * 6, [None] + [0.0] * 95])
def test_what_is_missing_is_not_none(codes):
    found = xids.week(chart(*codes), [], DAY_S)
    assert not found.is_whole
    assert found.known_s == QUARTER_S * sum(code is not None for code in codes)


def test_seconds_missing_within_a_quarter_count_as_missing():
    assert not xids.week(chart(*[0.0] * 96, samples=800), [], DAY_S).is_whole


def test_one_that_came_is_told_with_the_newest_first():
    found = xids.week(chart(0.0, 13.0, 0.0, 79.0), [], DAY_S)
    assert found.found == [Xid(at(2_700), 79), Xid(at(900), 13)]


def test_an_event_tells_the_moment_and_is_not_counted_twice():
    told = [(at(1_234), {"signal": "xid", "value": 79.0})]
    found = xids.week(chart(0.0, 79.0), told, DAY_S)
    assert found.found == [Xid(at(1_234), 79)]


def test_an_event_is_told_where_no_sample_is_known():
    found = xids.week(chart(None, None), [(at(1_000), {"value": 48})], DAY_S)
    assert (found.newest, found.known_s) == (Xid(at(1_000), 48), 0)


@pytest.mark.parametrize("data", [None, [], {}, {"value": "79"}, {"value": 0}, {"value": 1e9}])
def test_an_event_that_makes_no_sense_is_none(data):
    assert xids.week(chart(0.0), [(at(10), data)], DAY_S).found == []
