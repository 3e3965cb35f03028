"""A whole node under whatever its sensors show: what it does, and what it sent of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.actuators.base import Condition
from agents.guest import Guest
from agents.sysmonitor.monitor import Monitor
from agents.sysmonitor.recording import recorded
from agents.sysmonitor.replay import replay
from agents.sysmonitor.signals import GpuFacts
from agents.wire import codec
from agents.wire.messages import DesiredGpu, Event, EventBatch, Telemetry
from agents.wire.names import EventKind, Origin, SharingMode, Signal
from tests.agents.cast import MEMORY, POLICY, Stage, desired, placement

# As many as 10,000 examples of whole nodes take some minutes.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(60 if settings.default.max_examples == 100 else 0),
]

QUIET = {Signal.SM_ACTIVITY: 20.0, Signal.MEMORY: 0.25 * MEMORY}
OVER_SM = QUIET | {Signal.SM_ACTIVITY: 97.0}
OVER_MEMORY = QUIET | {Signal.MEMORY: 0.97 * MEMORY}
OVER = [OVER_SM, OVER_MEMORY]
SHOWN = st.sampled_from(
    [
        *(QUIET, QUIET, OVER_SM, OVER_SM, OVER_MEMORY),
        QUIET | {Signal.SM_ACTIVITY: 80.0},
        QUIET | {Signal.SM_ACTIVITY: float("nan")},
        QUIET | {Signal.SM_ACTIVITY: 4_294_967_295.0},
        {Signal.MEMORY: -1.0},
        {},
        "no data",
        "failing",
    ]
)
# Nothing, a new job, a restart of the agent, the GPU disabled or enabled.
HAPPENINGS = st.sampled_from(["", "", "", *"nnrde"])
# What the sensors show, for how many samples; and what else happens then.
SPELLS = st.lists(
    st.tuples(
        SHOWN, st.integers(1, 4) | st.integers(5, 25), st.sampled_from(["", "", "", *"nnrde"])
    ),
    min_size=1,
    max_size=10,
)


@dataclass
class Life:
    """One life of the agent: what GPU 0 began with and what was sent of it."""

    monitor: Monitor
    telemetry: list[Telemetry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Watched(Stage):
    """Keeps all that is sent, as it was on the wire, and what each sample showed."""

    def __init__(self, state_dir: Path) -> None:
        self.lives: list[Life] = []
        self.newest = 0
        self.samples: list[dict[Signal, float] | None] = []
        self.seconds: list[dict[Signal, float] | None] = []
        super().__init__(state_dir)

    def board(self, boot_id: str = "boot 1") -> None:
        super().board(boot_id)
        self.lives.append(Life(self.node._guards[0].monitor))

    def show(self, shown: Any) -> None:
        self.sensors.silent = shown == "no data"
        self.sensors.failure = OSError("no NVML") if shown == "failing" else None
        self.sensors.values = shown if isinstance(shown, dict) else {}

    def sample(self, number: int) -> None:
        """Two ticks of the loop, the second that goes out among them."""
        self.now = round(self.now + 0.1, 6)
        self.tick(2 * number)
        blind = self.sensors.silent or self.sensors.failure is not None
        self.samples.append(None if blind else dict(self.sensors.values))
        self.now = round(self.now + 0.1, 6)
        if number % 5 == 4:
            taken = [it for it in self.samples[-5:] if it is not None]
            self.seconds.append(taken[-1] if taken else None)
        self.tick(2 * number + 1)
        self.receive()

    def receive(self) -> None:
        while (message := self.node.outbox.take(self.now)) is not None:
            told = codec.decode_from_agent(codec.encode(message))
            if isinstance(told, EventBatch):
                self.take(told.events)
            elif isinstance(told, Telemetry):
                self.lives[-1].telemetry.append(told)

    def take(self, events: Iterable[Event]) -> None:
        """What was sent already in an earlier life is sent again."""
        new = [it for it in events if it.seq > self.newest]
        self.newest = max([self.newest, *(it.seq for it in new)])
        self.lives[-1].events += new
        self.node.outbox.acknowledge(self.newest)
        self.events += new

    @property
    def frozen(self) -> bool:
        return [it for it in ["thaw", *self.jobs.asked] if it in {"freeze", "thaw"}][-1] == "freeze"


def live(stage: Watched, spells: Any) -> None:
    """From the moment in which the first job runs."""
    stage.jobs.after_adoption = Condition.ALIVE
    number = 0
    for shown, samples, happening in [(QUIET, 10, "n"), (QUIET, 5, "n"), *spells]:
        meanwhile(stage, happening, number)
        stage.show(shown)
        for _ in range(samples):
            before, told = stage.node._guests.on_gpu(0), len(stage.events)
            stage.sample(number)
            number += 1
            check(stage, before, stage.events[told:])


def meanwhile(stage: Watched, happening: str, number: int) -> None:
    """A restart of the agent, or other orders: a job, the GPU disabled or enabled."""
    if happening == "r":
        stage.restart()
    elif happening:
        job = placement(placement_id=f"01920000-0000-7000-8000-{number:012}")
        gpu = DesiredGpu(0, SharingMode.ENFORCE, "standard", disabled=happening == "d")
        stage.order(desired(job, generation=number + 1, gpus=(gpu,)))


def check(stage: Watched, before: Guest | None, events: list[Event]) -> None:
    """A sample over a limit leaves the job that was there frozen, or being stopped."""
    guest, shown = stage.node._guests.on_gpu(0), stage.samples[-1]
    if guest is not None and guest is before and guest.stop is None and shown in OVER:
        assert stage.frozen
    started = [it.data["origin"] for it in events if it.kind is EventKind.EVICTION_STARTED]
    if {Origin.OVERLOAD, Origin.EMERGENCY} & set(started):
        assert is_proved(stage)


def is_proved(stage: Watched) -> bool:
    """By four seconds in a row that ended over the limit, or by the last two samples."""
    last = [it for it in stage.samples if it is not None][-2:]
    dwell = list(takewhile(lambda it: it == OVER_SM, reversed(stage.seconds)))
    return last == [OVER_MEMORY] * 2 or len(dwell) >= 4


@given(SPELLS)
@settings(max_examples=settings.default.max_examples // 3)
def test_what_a_node_sent_replays_as_it_was(spells):
    with tempfile.TemporaryDirectory() as folder:
        stage = Watched(Path(folder))
        try:
            live(stage, spells)
        finally:
            stage.die()
    for life in stage.lives:
        records = recorded(0, life.telemetry, life.events, GpuFacts(MEMORY), None)
        again = replay(life.monitor, records, POLICY)
        assert [
            (it.from_state, it.to_state, it.signal, it.value, it.limit) for it in again.transitions
        ] == [moved(it) for it in life.events if is_move(it)]


def is_move(event: Event) -> bool:
    return event.kind is EventKind.TRANSITION and event.gpu_index == 0


def moved(event: Event) -> tuple[Any, ...]:
    told = event.data
    return tuple(told[name] for name in ("from", "to", "signal", "value", "limit"))
