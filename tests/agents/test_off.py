from __future__ import annotations

from agents import off
from agents.off import Switch


def test_without_a_file_nothing_is_off(tmp_path):
    assert off.read(tmp_path) == Switch()


def test_a_touched_file_stops_the_whole_node(tmp_path):
    (tmp_path / "off").touch()
    assert off.read(tmp_path).covers("any GPU")


def test_a_file_that_cannot_be_read_stops_the_whole_node(tmp_path):
    (tmp_path / "off").mkdir()
    assert off.read(tmp_path).covers("any GPU")


def test_one_gpu_is_switched_off_alone(tmp_path):
    off.switch_off(tmp_path, "GPU-1")
    switch = off.read(tmp_path)
    assert switch.covers("GPU-1")
    assert not switch.covers("GPU-0")


def test_one_more_gpu_does_not_bring_the_others_back(tmp_path):
    off.switch_off(tmp_path, None)
    off.switch_off(tmp_path, "GPU-1")
    assert off.read(tmp_path).everything


def test_back_on_one_by_one_and_all_at_once(tmp_path):
    off.switch_off(tmp_path, "GPU-0")
    off.switch_off(tmp_path, "GPU-1")
    off.switch_back(tmp_path, "GPU-0")
    assert off.read(tmp_path) == Switch(gpu_uuids=frozenset({"GPU-1"}))
    off.switch_back(tmp_path, None)
    assert off.read(tmp_path) == Switch()
