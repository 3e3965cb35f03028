"""One GPU's SysMonitor in operation: it takes the samples, keeps the second, asks the machine."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from agents.collectors.base import NOTHING, SET_BY_HAND, GpuReading, Origin
from agents.duty import short_term
from agents.mps.warden import Terms
from agents.sysmonitor import crossings, machine, monitor, signals
from agents.sysmonitor.monitor import Facts, Monitor, Step
from agents.sysmonitor.recording import coded
from agents.sysmonitor.signals import POSITIONS, GpuFacts, Reading, Values
from agents.wire.messages import DesiredGpu, GpuInventory, GpuSample
from agents.wire.names import GPU_STATES, SHARING_MODES, SIGNALS, GpuState, SharingMode, Signal
from agents.wire.policy import AgentPolicy

_MEMORY = POSITIONS[Signal.MEMORY]
_XID = POSITIONS[Signal.XID]
_STATE_CODES = {state: code for code, state in enumerate(GPU_STATES)}
_SIGNAL_CODES = {signal: code for code, signal in enumerate(SIGNALS)}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a node: as told to the console, and what its percentages are taken of. `ceiling`
    is the most that the node's own settings let be done there."""

    inventory: GpuInventory
    facts: GpuFacts
    ceiling: SharingMode = SharingMode.ENFORCE


class Guard:
    """Keeps no decision of its own: `machine` decides, the node acts."""

    def __init__(self, gpu: Gpu, monitor: Monitor) -> None:
        self.gpu = gpu
        self.monitor = monitor
        self.policy: AgentPolicy | None = None
        self.target: DesiredGpu | None = None
        self.switched_off = False
        # What MPS says of offline work here, see `mps.warden`.
        self.terms = Terms()
        # Why this node can run no job more, whichever its GPU; "" while it can.
        self.no_room = ""
        self.reading: GpuReading | None = None
        # Short-term SM activity of the online side, as duty follows it.
        self.online_sm_percent: float | None = None
        # What is over a limit in the last sample was within it in the one before.
        self.before_last_at: float | None = None
        # Set when a job or its memory would not go; lifted by a person, see `follow`.
        self.quarantine = ""
        # Of the closed second, those that SysMonitor has no answer to.
        self.xids: tuple[float, ...] = ()
        self.degraded: tuple[Signal, ...] = ()
        self.saved_at = float("-inf")
        self._last_at: float | None = None
        self.slo_p99_ms: float | None = None
        # What is plausible of the last sample; None until somebody asks.
        self._plausible: Values | None = NOTHING
        self._worst: Values = NOTHING
        self._sample: Reading | None = None
        # Each local sample is judged once; where its memory came from tells it from a repetition.
        self._is_judged = True
        self._memory_from: Origin | None = None
        # What SysMonitor was told last, and how much time it counted in this second.
        self.known = Facts()
        self._step_s: float | None = None
        # All samples of this second, as they came.
        self._second: list[Values] = []

    @property
    def index(self) -> int:
        return self.gpu.inventory.index

    @property
    def state(self) -> GpuState:
        return self.monitor.state

    @property
    def held(self) -> bool:
        """Offline work must not launch, for whichever reason."""
        return self.monitor.held or bool(self.terms.hold)

    @property
    def why_held(self) -> str:
        return self.monitor.why if self.monitor.held else self.terms.hold

    @property
    def unshareable(self) -> str:
        """The fact that forbids to share it, "" when none does."""
        return self.gpu.inventory.unshareable_fact or self.terms.unshareable or self.no_room

    @property
    def disabled(self) -> bool:
        return self.target is not None and self.target.disabled

    @property
    def mode(self) -> SharingMode:
        """What may be done here: observe until told otherwise."""
        if self.switched_off:
            return SharingMode.OFF
        ordered = SharingMode.OBSERVE if self.target is None else self.target.mode
        return min(ordered, self.gpu.ceiling, key=SHARING_MODES.index)

    def follow(
        self, target: DesiredGpu | None, policy: AgentPolicy | None, slo_p99_ms: float | None
    ) -> None:
        """New orders. A person who disabled the GPU and enables it again lifts a quarantine."""
        if self.disabled and target is not None and not target.disabled:
            self.quarantine = ""
        if self.policy is not None and (policy, slo_p99_ms) != (self.policy, self.slo_p99_ms):
            self.monitor = machine.relimited(self.monitor)
        self.target, self.policy, self.slo_p99_ms = target, policy, slo_p99_ms
        self._sample = None

    def take(self, reading: GpuReading, now: float) -> None:
        """One local sample. Nonsense values are missing from here on."""
        self.before_last_at, self._last_at = self._last_at, now
        self.reading, self._is_judged = reading, False
        self._follow_online(reading.sm_online_percent)
        self._second.append(reading.values)
        self._plausible = self._sample = None

    def close_second(self) -> None:
        """A second without a sample is one in which everything was missing."""
        if not self._second:
            self.reading = self.online_sm_percent = None
        samples = [signals.plausible(values, self.gpu.facts) for values in self._second]
        self._plausible, self._sample = samples[-1] if samples else NOTHING, None
        self._worst = signals.worst(samples) if samples else NOTHING
        codes = {sample[_XID] for sample in samples}
        self.xids = tuple(code for code in codes if code and not signals.xid_gravity(code))
        self._second, self._step_s = [], None

    def local(self, facts: Facts, now: float) -> Step:
        """On the sample last taken, once."""
        if self.policy is None or self._is_judged:
            return Step(self.monitor)
        self._is_judged = True
        known = self.known = self._with_quarantine(facts)
        if not self._is_memory_new():
            known = replace(known, memory_is_new=False)
        return self._keep(machine.local_step(self.monitor, self.sample, self.policy, known, now))

    def _is_memory_new(self) -> bool:
        """False while a source that is late has its last value shown again."""
        origins = () if self.reading is None else self.reading.origins
        before, self._memory_from = self._memory_from, origins[_MEMORY] if origins else None
        return self._memory_from is None or self._memory_from != before

    def wire(self, facts: Facts, now: float) -> Step:
        """On the second that `close_second` closed."""
        if self.policy is None:
            return Step(self.monitor)
        known = self.known = self._with_quarantine(facts)
        self._step_s = machine.step_s(self.monitor, now)
        return self._keep(
            machine.wire_step(self.monitor, self.sample, self.worst, self.policy, known, now)
        )

    @property
    def values(self) -> Values:
        """What is plausible of the last sample, in wire units."""
        if self._plausible is None:
            self._plausible = signals.plausible(self._second[-1], self.gpu.facts)
        return self._plausible

    @property
    def sample(self) -> Reading:
        """The last sample in policy units."""
        if self._sample is None:
            facts, slo_p99_ms = self.gpu.facts, self.slo_p99_ms
            self._sample = signals.in_policy_units(self.values, facts, slo_p99_ms)
        return self._sample

    @property
    def worst(self) -> Reading:
        """The worst values of the second that was closed last, in policy units."""
        return signals.reading(self._worst, self.gpu.facts, self.slo_p99_ms)

    @property
    def throttled_by(self) -> str | None:
        """As `Facts.throttled_by`."""
        told = None if self.reading is None else self.reading.throttled
        if told is None:
            return None
        return ", ".join(reason for reason in told if reason != SET_BY_HAND)

    def calm(self) -> bool:
        return self.policy is not None and machine.calm(self.monitor, self.policy)

    def pressing(self, facts: Facts) -> bool:
        return self.policy is not None and machine.pressing(self.sample, self.policy, facts)

    def is_over(self) -> bool:
        """Whether the last sample is over any limit that held when SysMonitor was asked last."""
        return self.pressing(self.known)

    def missing(self) -> tuple[Signal, ...]:
        """Of those that the last verdict took into account."""
        return () if self.policy is None else machine.missing(self.sample, self.policy, self.known)

    def headroom(self) -> tuple[float | None, Signal | None]:
        """As `crossings.headroom`, on the last sample."""
        if self.policy is None:
            return None, None
        return crossings.headroom(self.sample, self.policy, self.known)

    def telemetry(self, **sides: Any) -> GpuSample:
        """The closed second; `sides` are the fields about the online and the offline side."""
        headroom_percent, nearest = self.headroom()
        return GpuSample(
            self.index,
            _STATE_CODES[self.monitor.state],
            self.values,
            self._worst,
            headroom_percent=headroom_percent,
            nearest_signal=None if nearest is None else _SIGNAL_CODES[nearest],
            facts=coded(self.known),
            step_s=self._step_s,
            **sides,
        )

    def to_json(self) -> bytes:
        kept = {"monitor": monitor.to_dict(self.monitor), "quarantine": self.quarantine}
        return json.dumps(kept).encode()

    def _follow_online(self, sm_percent: float | None) -> None:
        """What is missing, or cannot be true, is unknown from now on: not what it was."""
        if sm_percent is None or self._last_at is None or not 0.0 <= sm_percent <= 100.0:
            self.online_sm_percent = None
            return
        dt_s = 0.0 if self.before_last_at is None else self._last_at - self.before_last_at
        self.online_sm_percent = short_term(self.online_sm_percent, sm_percent, dt_s)

    def _keep(self, step: Step) -> Step:
        self.monitor = step.monitor
        return step

    def _with_quarantine(self, facts: Facts) -> Facts:
        if not self.quarantine:
            return facts
        return replace(facts, disabled_by_person=True, disable_reason=self.quarantine)


def restore(gpu: Gpu, kept: bytes | None, now: float) -> Guard:
    """The guard as it was saved, or a new one when nothing readable is kept."""
    if kept is None:
        return Guard(gpu, Monitor(since=now))
    try:
        content = json.loads(kept)
        guard = Guard(gpu, monitor.from_dict(content["monitor"], now))
        guard.quarantine = content["quarantine"]
    except (ValueError, KeyError, TypeError):
        return Guard(gpu, Monitor(since=now))
    return guard
