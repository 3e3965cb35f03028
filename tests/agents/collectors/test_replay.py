from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from agents.collectors.attribution import GpuProcess, Side
from agents.collectors.base import GpuReading, Look, NodeReading, Origin, Unavailable
from agents.collectors.card import Card
from agents.collectors.replay import Recorder, ReplayCollector, recorded
from agents.wire.names import SIGNALS, Signal

CARD = Card(0, "GPU-1", "H100", 80 << 30, pcie_generation=5, gpm=True)
VALUES = (0.1 + 0.2, None, *([1e12 / 3] * (len(SIGNALS) - 2)))


def node(at):
    gpu = GpuReading(
        0,
        VALUES,
        sm_online_percent=40.0,
        online_processes=1,
        offline_memory_bytes=0,
        origins=(Origin("nvml", at - 0.1), *([None] * (len(SIGNALS) - 1))),
        missing={Signal.SM_ACTIVITY: "gpm: no permission"},
        throttled=("power cap",),
        processes=(GpuProcess(7, Side.OFFLINE, None, placement_id="job-1"),),
        processes_at=at - 0.2,
    )
    looks = (Look("nvml", at - 0.1, 0.002, True), Look("dcgm", None, None, False, "not asked yet"))
    return NodeReading(at, (gpu,), looks)


class Scripted:
    def __init__(self, *readings):
        self.readings = list(readings)

    def collect(self, now):
        return self.readings.pop(0)

    def close(self): ...


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "telemetry.jsonl"
    recorder = Recorder(Scripted(node(100.0), None, node(100.4)), [CARD], path)
    assert [recorder.collect(100.0 + tick / 5) for tick in range(3)][1] is None
    recorder.close()
    return path


def test_a_recording_is_shown_again_exactly(file):
    replay = ReplayCollector(file)
    assert replay.cards == (CARD,)
    assert replay.collect(100.0) == node(100.0)
    assert replay.collect(100.2) is None
    assert replay.collect(100.4) == node(100.4)
    assert replay.collect(100.6) is None


def test_a_replay_at_another_time_moves_only_the_times(file):
    reading = ReplayCollector(file).collect(500.0)
    assert reading == node(500.0)
    times = {"origins": (), "processes_at": None}
    assert replace(reading.gpus[0], **times) == replace(node(100.0).gpus[0], **times)


def test_a_disk_that_takes_no_more_ends_the_recording_and_not_the_reading(tmp_path, caplog):
    recorder = Recorder(Scripted(node(100.0), node(100.2)), [], tmp_path / "telemetry.jsonl")
    recorder._file.close()
    with Path("/dev/full").open("wb", buffering=0) as recorder._file:
        assert [recorder.collect(at) for at in (100.0, 100.2)] == [node(100.0), node(100.2)]
    assert "/dev/full cannot be written: [Errno 28]" in caplog.text


def test_a_recording_is_never_written_over(file):
    with pytest.raises(FileExistsError):
        Recorder(Scripted(), [CARD], file)


def test_a_last_line_that_was_cut_off_is_left_out(file):
    file.write_bytes(file.read_bytes()[:-20])
    assert len(list(recorded(file)[1])) == 2


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: b"", "line 1"),
        (lambda text: b"not json\n" + text, "line 1"),
        (lambda text: text.replace(b'"version":1', b'"version":2'), "reads muxflow-telemetry 1"),
        (lambda text: text.replace(b'"at":100.2', b'"at":99.0'), "line 3"),
        (lambda text: text.replace(b'"at":100.2', b'"at":"x"'), "line 3"),
        (lambda text: text.replace(b"100.2", b"\xff"), "line 3"),
    ],
    ids=["empty", "another file", "another version", "back in time", "no number", "no text"],
)
def test_a_damaged_recording_is_refused_with_its_line(file, damage, words):
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(Unavailable, match=words):
        list(recorded(file)[1])


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(Unavailable, match="cannot be read"):
        ReplayCollector(tmp_path / "absent")
