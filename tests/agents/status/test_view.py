"""What a node says of itself, from the one that tests drive."""

from __future__ import annotations

import pytest

from agents.collectors.base import Look
from agents.status import snapshot, view, words
from agents.status.snapshot import Snapshot
from agents.wire.names import GpuState, Origin, Phase, PlacementState, SharingMode, Signal
from tests.agents.cast import PLACEMENT_ID, STOP, Stage, desired, placement

WALL = 2_000.0


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.die()


def seen(stage):
    return view.node(stage.node.inside(), None, stage.now, WALL)


def test_a_gpu_tells_its_state_since_when_and_its_headroom(stage):
    stage.healthy()
    stage.run(5)
    gpu = seen(stage).gpus[0]
    assert (gpu.uuid, gpu.state, gpu.mode) == ("GPU-0", GpuState.HEALTHY, SharingMode.ENFORCE)
    assert 4.0 < WALL - gpu.since < 9.0
    assert (gpu.nearest_signal, round(gpu.headroom_percent)) == (Signal.MEMORY, 74)


def test_a_value_has_its_unit_and_what_is_missing_has_none(stage):
    stage.healthy()
    shown = {one.signal: one for one in seen(stage).gpus[0].signals}
    assert (shown[Signal.SM_ACTIVITY].value, shown[Signal.SM_ACTIVITY].unit) == (20.0, "%")
    assert Signal.POWER not in shown


def test_a_job_tells_its_limits_and_the_phase_of_its_stop(stage):
    stage.start()
    (job,) = seen(stage).placements
    assert (job.placement_id, job.job, job.state) == (
        PLACEMENT_ID,
        "bert-7",
        PlacementState.RUNNING,
    )
    assert (job.sm_share_percent, job.duty_percent) == (40.0, None)
    stage.jobs.dies_of = frozenset()
    stage.order(desired(placement(stop=STOP), generation=3))
    (job,) = seen(stage).placements
    assert (job.state, job.phase, job.why) == (
        PlacementState.STOPPING,
        Phase.SIGNALLED,
        STOP.reason,
    )
    assert stage.node.inside().spool.tally.evictions == {(0, Origin.MOVE): 1}


def test_what_has_ended_is_no_placement_any_more(stage):
    stage.start()
    stage.jobs.exit(0)
    stage.run(1)
    assert seen(stage).placements == ()


def test_collectors_tell_how_they_did(stage, monkeypatch):
    look = Look("nvml", stage.now, 0.004, success=True)
    collect = stage.sensors.collect
    monkeypatch.setattr(stage.sensors, "collect", lambda now: _with(collect(now), look))
    stage.run(1)
    (source,) = seen(stage).sources
    assert (source.name, source.success, source.duration_s) == ("nvml", True, 0.004)
    assert 0.5 < source.age_s < 1.5


def _with(reading, look):
    return type(reading)(reading.at, reading.gpus, (look,))


def test_the_file_holds_all_of_it(stage):
    stage.start()
    said = Snapshot("0.1.0", 7, WALL, 2.0, WALL - 90, (seen(stage),))
    assert snapshot.decode(snapshot.encode(said)) == said
    text = words.as_text(said, WALL + 1)
    for told in ("PID 7, up 2 min, as of 1 s ago", "generation 2, policy standard 3", "bert-7"):
        assert told in text
    assert "headroom" in text
    assert f"{Signal.SM_ACTIVITY:17} 20 %" in text
