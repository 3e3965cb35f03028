from __future__ import annotations

from pathlib import Path

import pytest

from agents.collectors.attribution import Side
from agents.status import words
from agents.status.snapshot import LinkView, ProcessView, SignalView, Snapshot, SourceView
from agents.wire.names import UNITS, Signal


def shown(signal, value, **more):
    return words._signal(SignalView(signal, UNITS[signal], value, **more))


@pytest.mark.parametrize(
    ("signal", "value", "text"),
    [
        (Signal.GPU_UTIL, 85.0, "85 %"),
        (Signal.SM_CLOCK, 1_755.0, "1,755 MHz"),
        (Signal.POWER, 627.34, "627.3 W"),
        (Signal.MEMORY, 31.0 * (1 << 30), "31.0 GiB"),
        (Signal.PCIE_RX, 0.5 * (1 << 30), "0.5 GiB/s"),
        (Signal.XID, 0.0, "none"),
        (Signal.XID, 79.0, "79"),
    ],
)
def test_a_value_is_told_in_the_unit_that_people_read(signal, value, text):
    assert shown(signal, value) == text


def test_where_a_value_came_from_and_how_old_it_is():
    assert shown(Signal.GPU_UTIL, 1.0, source="nvml", age_s=0.24) == "1 %  nvml, 0.2 s ago"


def test_what_is_missing_is_never_0():
    assert shown(Signal.GPU_UTIL, None, why="not permitted") == "missing: not permitted"


def test_a_collector_that_fails_says_why():
    failed = SourceView("dcgm", success=False, duration_s=1.0, age_s=None, why="refused")
    assert words._source(failed) == "dcgm: failed: refused"


def test_a_link_that_is_down_says_why():
    link = LinkView(up=False, reconnects=0, complaint="refused")
    assert words._link(link) == "not connected to the console: refused"


@pytest.mark.parametrize(
    ("age_s", "period_s", "is_old"), [(6.0, 2.0, False), (6.1, 2.0, True), (20.0, 8.0, False)]
)
def test_what_was_said_is_old_after_three_periods(age_s, period_s, is_old):
    said = Snapshot("0.1.0", 7, 1_000.0, period_s, 0.0, ())
    assert bool(words.trouble(said, 7, Path("/s"), 1_000.0 + age_s)) is is_old


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1.0, "0 s"), (59.0, "59 s"), (90.0, "2 min"), (7_200.0, "2 h"), (172_800.0, "2 d")],
)
def test_a_span_is_told_in_its_largest_unit(seconds, text):
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"workload": "prod/chat-0 of service chat", "memory_bytes": 3 << 30, "mps": True},
            "prod/chat-0 of service chat: python (PID 7), 3.0 GiB, MPS client",
        ),
        ({"placement_id": "job-1"}, "job-1: python (PID 7), memory unknown"),
        ({}, "python (PID 7), memory unknown"),
        ({"name": ""}, "unknown (PID 7), memory unknown"),
    ],
)
def test_a_process_is_told_by_the_name_that_people_know(given, text):
    blank = {"name": "python", "workload": "", "placement_id": "", "memory_bytes": None}
    process = ProcessView(**{"pid": 7, "side": Side.ONLINE, "mps": False} | blank | given)
    assert words._process(process) == text
