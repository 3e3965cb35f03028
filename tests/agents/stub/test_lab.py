"""The machine of the demo's real node, in parts; `tests/demo` runs all of it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from agents.collectors import latency
from agents.mps import unit
from agents.mps.control import Place
from agents.stub.lab import page, presses
from agents.stub.lab.daemons import Card, Daemons
from agents.stub.lab.service import Tally

BEFORE = {"exits_released": 3, "exits_idle": 1, "exits_failed": 0, "exits_unsafe": 0}


def test_what_a_service_shows_is_what_the_agent_reads():
    tally = Tally()
    for took_s in (0.012, 0.012, 0.4):
        tally.answer(took_s, now=1.0)
    text = page.exposition(tally)
    told = latency.read(text, latency.metric_in(text), at=2.0)
    assert sum(told.counts.values()) == 3
    assert told.buckets[0.015] == 2
    assert told.buckets[float("inf")] == 3


@pytest.mark.parametrize(
    ("changed", "ending"),
    [({"exits_released": 4}, "released"), ({"exits_unsafe": 1}, "unsafe"), ({}, "")],
)
def test_an_end_is_told_as_the_server_of_the_gpu_counted_it(changed, ending):
    assert presses._ending(BEFORE, BEFORE | changed) == ending


def test_a_press_is_watched_until_online_is_back_and_a_little_longer():
    assert presses._until_s(None, 0, None) == presses.MOST_S
    assert presses._until_s(0.1, 0, None) == 0.1 + presses.CALM_S
    assert presses._until_s(0.1, 12, None) == presses.MOST_S
    assert presses._until_s(0.1, 12, 7.0) == 7.0 + presses.AFTER_S


@pytest.mark.timeout(20)
def test_a_daemon_ends_with_who_holds_its_lifeline_and_is_nobodys_child(tmp_path):
    card = Card(unit.place_of("GPU-1", tmp_path), tmp_path / "gpu")
    daemons = Daemons(tmp_path, [card], tmp_path / "no-report")
    daemons.keep()
    daemon = unit.find(card.place)
    try:
        assert parent_of(daemon.pid) != os.getpid()
        assert is_there(card.place)
        os.close(daemons._held)
        deadline = time.monotonic() + 10
        while is_there(card.place) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_there(card.place)
    finally:
        if is_there(card.place):
            os.kill(daemon.pid, signal.SIGKILL)


def is_there(place: Place) -> bool:
    return unit.find(place) is not None


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
