"""Which predictor decides, and what the next round starts from."""

from __future__ import annotations

import pytest

from agents.wire.names import SharingMode
from console.predictor import registry
from console.scheduling import rounds
from console.scheduling.snapshot import Snapshot
from tests.console.inventory.cast import NOW
from workers import deciding
from workers.deciding import Mind
from workers.prediction import artifact
from workers.prediction.analytic import Analytic


@pytest.fixture
def in_force(monkeypatch):
    """The version in force by its number; its file is read each time that it is asked for."""
    said: dict[str, object] = {"number": None, "read": 0}

    def data():
        said["read"] += 1
        return None if said["number"] is None else (said["number"], b"a file")

    monkeypatch.setattr(registry, "active_number", lambda: said["number"])
    monkeypatch.setattr(registry, "active_data", data)
    monkeypatch.setattr(artifact, "load", lambda data, number: f"version {number}")
    return said


def test_without_a_version_the_estimate_predicts(in_force):
    assert isinstance(Mind().predictor(), Analytic)
    assert in_force["read"] == 0


def test_a_version_is_loaded_once_and_again_when_another_is_in_force(in_force):
    mind, found = Mind(), list[object]()
    for number in (3, 3, 4, None):
        in_force["number"] = number
        found.append(mind.predictor())
    assert found[:3] == ["version 3", "version 3", "version 4"]
    assert isinstance(found[3], Analytic)
    assert in_force["read"] == 3


def test_a_file_that_cannot_be_read_leaves_the_estimate_in_force(in_force, monkeypatch):
    def damaged(data, number):
        raise ValueError("no artefact")

    monkeypatch.setattr(artifact, "load", damaged)
    in_force["number"] = 3
    assert isinstance(Mind().predictor(), Analytic)


def test_each_round_starts_from_the_prices_on_record(in_force, monkeypatch):
    """Another process may have run the last one, so what this one remembers is not enough."""
    seen = []
    monkeypatch.setattr(rounds, "last_prices", lambda kind: {"some class": len(seen)})
    monkeypatch.setattr(
        deciding.matching, "decide", lambda snapshot, by, last: seen.append((last, last.prices))
    )
    mind = Mind()
    for _ in range(2):
        mind.decide(Snapshot(NOW, SharingMode.ENFORCE, (), ()))
    (first, cold), (second, warm) = seen
    assert (cold, warm) == ({"some class": 0}, {"some class": 1})
    assert first is second, "what was predicted before is kept"
