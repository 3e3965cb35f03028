"""Whatever a tool, an exporter or a service prints, no parser fails on it."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from agents.collectors import exposition, latency, numbers
from agents.collectors.dcgm import BY_NAME, parse, parse_discovery, parse_dmon
from agents.collectors.latency import Window
from agents.sysmonitor.signals import BOUNDS
from agents.wire.names import SIGNALS, Signal

METRIC = "http_request_duration_seconds"
VALUES = st.one_of(
    st.floats().map(str),
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.sampled_from(["N/A", "[N/A]", "+Inf", "NaN", "4294967295", "9223372036854775794", ""]),
    st.text(max_size=8),
)
LABELS = st.sampled_from(
    ["", "{}", '{le="0.1"}', '{le="+Inf"}', '{le="x"}', '{quantile="0.99"}', '{UUID="GPU-1"}', '{"']
)
NAMES = st.sampled_from([*sorted(BY_NAME), METRIC, f"{METRIC}_bucket", f"{METRIC}_count", "#"])
LINES = st.one_of(
    st.tuples(NAMES, LABELS, VALUES).map(lambda parts: "{}{} {}".format(*parts)),
    st.lists(VALUES, max_size=6).map(lambda cells: "GPU 0 " + " ".join(cells)),
    st.text(max_size=30),
)
PAGES = st.lists(LINES, max_size=12).map("\n".join)


def is_plausible(signal, value):
    low, high = BOUNDS[signal]
    return low <= value <= high


@given(st.one_of(VALUES, st.text(), st.binary(), st.integers(), st.floats(), st.none()))
@example(b"\xff")
def test_a_raw_value_is_plausible_or_missing(raw):
    for signal in Signal:
        value = numbers.read(signal, raw)
        assert value is None or is_plausible(signal, value)


@given(PAGES)
def test_what_is_found_on_a_page_is_plausible(page):
    for found in parse(page).values():
        assert all(is_plausible(signal, value) for signal, value in found.items())
    for row in parse_dmon(page).values():
        present = [(s, v) for s, v in zip(SIGNALS, row, strict=True) if v is not None]
        assert all(is_plausible(signal, value) for signal, value in present)
    assert parse_discovery(page) == {}
    exposition.families(page)


@given(st.lists(st.tuples(PAGES, st.floats(-1.0, 8.0)), max_size=6))
def test_no_history_of_pages_gives_a_negative_load_or_no_number(pages):
    window, now = Window(METRIC), 0.0
    for page, step_s in pages:
        now += step_s
        found = latency.read(page, METRIC, now)
        if found is not None:
            pace = window.add(found)
            assert pace.qps is None or pace.qps >= 0.0
            assert pace.p99_ms is None or not math.isnan(pace.p99_ms)
