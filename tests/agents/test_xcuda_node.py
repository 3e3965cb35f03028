"""The stop sequence of real processes under libxcuda, led by a whole node."""

from __future__ import annotations

import signal
import time

import pytest

from agents.mps import unit
from agents.wire.messages import Stop
from agents.wire.names import Checkpoint, EndReason, EventKind, Origin, Phase, Signal
from tests.agents.actuators.conftest import Bench, bench
from tests.agents.cast import EVICTION_ID, PLACEMENT_ID, Stage, desired, placement
from tests.agents.hanging import hang

__all__ = ["bench"]
pytestmark = pytest.mark.timeout(30)

STEP_S = 0.02
LAUNCHES = "exec $programs/loop launch --seconds 60 --kernel step_500us"
TRAINER = "exec $programs/trainer --checkpoint $saved --save-ms 300"
ALL = [str(phase) for phase in Phase]
WITHOUT_SAVING = [phase for phase in ALL if phase != Phase.CHECKPOINTED]


class Clients:
    """A control daemon that only remembers which of its clients it was to end."""

    def __init__(self):
        self.ended, self.known = set(), set()

    def __contains__(self, gpu_uuid):
        return True

    def place(self, gpu_uuid):
        return unit.place_of(gpu_uuid)

    def client_pids(self):
        return {"GPU-0": frozenset(self.known)}

    def terminate_client(self, gpu_uuid, pids):
        self.ended |= set(pids)


class Play:
    """A node with one real job, and a clock that stands still unless the test lets it run."""

    def __init__(self, bench: Bench, folder):
        self.bench, self.clients = bench, Clients()
        self.stage = Stage(folder, runtime=bench.new_runtime(clients=self.clients))

    def start(self, command, **changes):
        self.placement = placement(command=self.bench.command(command), **changes)
        self.stage.healthy()
        self.stage.order(desired(self.placement, generation=2))
        self.until(lambda: self.guest is not None and self.guest.facts.memory_bytes)

    @property
    def guest(self):
        return self.stage.node._guests.on_gpu(0)

    def until(self, holds, timeout_s=12.0):
        """Lets real time pass, ten ticks in a fifth of a second."""
        deadline = time.monotonic() + timeout_s
        for number in range(10_000):
            if found := holds():
                return found
            assert time.monotonic() < deadline, self.stage.events
            time.sleep(STEP_S)
            self.stage.now += STEP_S
            self.stage.tick(number)
            self.stage.receive()
        raise AssertionError

    def stop(self, grace_s=5.0, origin=Origin.MOVE):
        stop = Stop(EVICTION_ID, "it moves to a better GPU", grace_s, origin)
        asked = {"placement_id": PLACEMENT_ID, "command": self.placement.command, "stop": stop}
        self.stage.order(desired(placement(**asked), generation=3))

    def ended(self):
        (ended,) = self.until(lambda: self.stage.told(EventKind.PLACEMENT_ENDED))
        return ended.data

    @property
    def unsafe_exits(self):
        return self.bench.server.report()["exits_unsafe"]


@pytest.fixture
def play(bench, tmp_path):
    play = Play(bench, tmp_path / "state")
    yield play
    play.stage.die()


def test_an_ordinary_stop_lets_the_job_save_and_ends_it_idle(play):
    play.start(TRAINER)

    play.stop()

    ended = play.ended()
    assert (ended["reason"], ended["exit_code"], ended["signalled"]) == (EndReason.EVICTED, 0, True)
    assert play.stage.phases() == ["ACCEPTED", "SIGNALLED", "CHECKPOINTED", "GONE", ALL[-1]]
    assert (play.bench.folder / "saved").read_text().endswith("complete\n")
    assert play.unsafe_exits == 0


def test_a_job_that_does_not_leave_is_gated_released_and_gone_when_its_window_ends(play):
    play.start(LAUNCHES + " --on-term ignore")

    play.stop(grace_s=0.3)

    assert play.ended()["exit_code"] == 128 + signal.SIGTERM
    assert play.stage.phases() == WITHOUT_SAVING
    assert play.stage.told(EventKind.EVICTION_STUCK) == []
    assert play.unsafe_exits == 0


def test_an_overload_freezes_then_evicts_and_opens_the_window_once_it_is_calm(play):
    play.start(TRAINER)
    play.stage.sensors.values[Signal.SM_ACTIVITY] = 97.0
    play.stage.run(5)
    assert play.stage.phases()[-1] == Phase.SIGNALLED
    assert play.guest.facts.frozen

    play.stage.sensors.values[Signal.SM_ACTIVITY] = 20.0
    play.stage.run(3)

    assert play.ended()["exit_code"] == 0
    assert Phase.CHECKPOINTED in play.stage.phases()
    assert [event.kind for event in play.stage.events].count(EventKind.FROZEN) == 1


def test_an_overload_that_lasts_ends_the_job_unsaved_at_its_deadline(play):
    play.start(TRAINER)
    play.stage.sensors.values[Signal.SM_ACTIVITY] = 97.0
    play.stage.run(16)

    play.ended()

    assert play.stage.phases() == WITHOUT_SAVING
    assert not (play.bench.folder / "saved").exists()
    assert play.unsafe_exits == 0


def test_a_process_that_hangs_is_ended_through_mps_before_it_is_killed(play):
    play.start(LAUNCHES, checkpoint=Checkpoint.NONE)
    pid = play.guest.facts.pid
    hang(pid)

    play.stop()
    play.until(lambda: play.stage.told(EventKind.EVICTION_STUCK))

    assert play.stage.told(EventKind.EVICTION_STUCK)[0].data["why"].endswith("launches to be held")
    assert play.clients.ended == {pid}
    play.stage.run(3)  # MPS does nothing, so its time passes
    assert play.ended()["exit_code"] == -signal.SIGKILL
    assert play.stage.phases()[-2:] == [Phase.GONE, Phase.MEMORY_RETURNED]


def test_a_job_whose_shell_keeps_sigterm_to_itself_is_gated_and_told(play, monkeypatch):
    monkeypatch.setattr("agents.actuators.statement.SIGNAL_S", 0.2)
    play.start("setsid $programs/loop launch --seconds 60 & trap '' TERM; wait")

    play.stop(grace_s=0.6)

    ended = play.ended()
    assert "SIGTERM never reached process" in ended["remarks"][0]
    assert play.stage.phases() == WITHOUT_SAVING
    assert play.unsafe_exits == 0


ESCAPES = {
    "preload": "exec env -u LD_PRELOAD",
    "block": "exec env -u MUXFLOW_XCUDA_DIR -u MUXFLOW_XCUDA_REQUIRED",
}


@pytest.mark.parametrize("way", ESCAPES)
def test_a_job_that_escapes_its_limits_is_stopped_and_named(play, way, monkeypatch):
    monkeypatch.setattr("agents.actuators.xcuda.FAMILY_S", 0.0)
    play.bench.runtime._leashes.settings = play.bench.settings(handshake_s=0.0)
    escaped = placement(
        command=play.bench.command(ESCAPES[way], "$programs/loop launch --seconds 60")
    )
    play.stage.healthy()
    play.stage.order(desired(escaped, generation=2))
    play.until(lambda: play.guest and play.guest.record.started)
    play.clients.known.add(play.guest.facts.pid)

    ended = play.ended()

    assert ended["reason"] == EndReason.FAILED
    assert "never came under xCUDA" in ended["why"]
