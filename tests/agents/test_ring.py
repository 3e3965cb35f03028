"""The last two hours on disk: through a restart, a torn write, a full disk and another card."""

from __future__ import annotations

import errno
import os

import pytest

from agents import ring
from agents.ring import BLOCKS_IN_FILE, FILES, Ring
from agents.wire import samples
from agents.wire.limits import MAX_BLOCK_SECONDS, MAX_WINDOW_SECONDS
from agents.wire.messages import GpuSample, Telemetry
from agents.wire.names import SIGNALS

START = 1_700_000_000.0
CARDS = ("GPU-1", "GPU-2")


def telemetry(second):
    rows = tuple(GpuSample(gpu, 1, (float(second),) * len(SIGNALS), ()) for gpu in range(2))
    return Telemetry(second, START + second, rows)


def filled(folder, first, last, cards=CARDS):
    made = Ring(folder, cards)
    for second in range(first, last):
        made.add(telemetry(second))
    return made


def numbers(of_ring, after=0.0):
    return [number for block in of_ring.after(START + after) for number in block.numbers]


def test_what_was_measured_is_there_after_a_restart_and_goes_on(tmp_path):
    filled(tmp_path, 0, 25).close()
    assert numbers(filled(tmp_path, 30, 43)) == [*range(25), *range(30, 43)]


def test_a_killed_agent_loses_no_more_than_the_block_it_was_in(tmp_path):
    filled(tmp_path, 0, 2 * MAX_BLOCK_SECONDS + 3)
    assert numbers(Ring(tmp_path, CARDS)) == [*range(2 * MAX_BLOCK_SECONDS)]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_record_that_a_power_cut_tore_is_left_out_and_written_over(tmp_path, cut):
    filled(tmp_path, 0, 30).close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-cut])
    assert numbers(filled(tmp_path, 100, 110)) == [*range(20), *range(100, 110)]


def test_a_byte_that_rotted_hides_what_follows_in_its_file_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(ring, "BLOCKS_IN_FILE", 2)
    filled(tmp_path, 0, 40).close()
    first = min(tmp_path.iterdir())
    data = bytearray(first.read_bytes())
    data[-5] ^= 1
    first.write_bytes(data)
    assert numbers(Ring(tmp_path, CARDS)) == [*range(10), *range(20, 40)]


def test_it_holds_two_hours_and_no_more_than_its_files(tmp_path, monkeypatch):
    assert (FILES - 1) * BLOCKS_IN_FILE * MAX_BLOCK_SECONDS >= 7_200
    monkeypatch.setattr(ring, "BLOCKS_IN_FILE", 1)
    filled(tmp_path, 0, 10 * (FILES + 3)).close()
    assert len(list(tmp_path.iterdir())) == FILES
    assert numbers(Ring(tmp_path, CARDS))[0] == 30


def test_a_full_disk_costs_memory_until_it_takes_all_of_it(tmp_path, monkeypatch, caplog):
    held = filled(tmp_path, 0, 10)

    def full(file, data, offset):
        real(file, data[:7], offset)  # as far as there was room
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = os.pwrite
    monkeypatch.setattr(ring.os, "pwrite", full)
    for second in range(10, 40):
        held.add(telemetry(second))
    assert numbers(held) == [*range(40)]
    assert caplog.text.count("No space left on device") == 1
    monkeypatch.setattr(ring.os, "pwrite", real)
    held.close()
    assert numbers(Ring(tmp_path, CARDS)) == [*range(40)]


def test_where_no_folder_can_be_made_the_last_minutes_are_kept_all_the_same(tmp_path):
    (tmp_path / "file").touch()
    assert numbers(filled(tmp_path / "file" / "ring", 0, 15)) == [*range(15)]


def test_what_other_cards_measured_is_not_told_as_of_these(tmp_path):
    filled(tmp_path, 0, 20).close()
    assert numbers(filled(tmp_path, 50, 60, cards=("GPU-1", "GPU-3"))) == [*range(50, 60)]


def test_only_what_ended_later_is_read(tmp_path):
    assert numbers(filled(tmp_path, 0, 35), after=19.0) == [*range(20, 35)]


def test_the_window_of_a_gpu_ends_with_the_last_second(tmp_path):
    held = filled(tmp_path, 0, MAX_WINDOW_SECONDS + 15)
    window = held.window(1)
    assert window.numbers == tuple(range(15, MAX_WINDOW_SECONDS + 15))
    assert {one.rows[:4] for one in samples.seconds(window)} == {b"\x00\x00\x80\x3f"}
    assert held.window(2) is None
    assert filled(tmp_path / "new", 0, 0).window(0) is None
