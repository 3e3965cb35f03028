"""What the benchmark of the map counts as script of a frame."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.map.page import PAGE, WORKER, own_clock_of_frames, scripts_of_frames

THREADS = [
    {"name": "thread_name", "pid": 1, "tid": 1, "args": {"name": PAGE}},
    {"name": "thread_name", "pid": 1, "tid": 2, "args": {"name": WORKER}},
    {"name": "thread_name", "pid": 9, "tid": 1, "args": {"name": PAGE}},
]


def received(ts: int) -> dict[str, Any]:
    return {"name": "WebSocketReceive", "pid": 1, "tid": 1, "ts": ts}


def script(ts: int, dur: int, tdur: int, *, pid: int = 1, tid: int = 1) -> dict[str, Any]:
    return {"name": "FunctionCall", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "tdur": tdur}


def test_all_script_between_two_frames_counts_once_in_its_thread():
    trace = [
        *THREADS, received(0), received(500), received(1_000_000), received(2_000_000),
        script(10, 3_000, 2_000), script(600_000, 2_000, 1_000),
        script(20, 1_000, 1_000),  # inside of the first
        script(10, 9_000, 8_000, tid=2),
        script(10, 9_000, 8_000, pid=9),  # of another page
        script(1_500_000, 4_000, 3_000),
    ]  # fmt: skip
    assert scripts_of_frames(trace, PAGE, "tdur") == [3.0, 3.0]
    assert scripts_of_frames(trace, PAGE, "dur") == [5.0, 4.0]
    assert scripts_of_frames(trace, WORKER, "tdur") == [8.0, 0.0]


def test_the_own_clock_counts_all_callbacks_between_two_frames():
    spans = [
        (0, 1_000, True), (5_000, 500, True),
        (400_000, 2_000, False), (1_000_000, 700, True), (2_000_000, 900, True),
    ]  # fmt: skip
    assert own_clock_of_frames(spans) == [3.5, 0.7]
