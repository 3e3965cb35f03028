"""One GPU, one policy, and a bench that runs the machine as a node does: 5 Hz and once a second."""

from __future__ import annotations

from agents.sysmonitor import machine
from agents.sysmonitor.monitor import Action, ActionKind, Facts, Monitor, Step, Transition
from agents.sysmonitor.replay import LocalEvent, Record, WireSample
from agents.sysmonitor.signals import GpuFacts, Reading, Values, plausible, reading, worst
from agents.wire.names import SIGNALS, GpuState, Origin, Signal
from agents.wire.policy import AgentPolicy, demo

GPU = GpuFacts(
    memory_bytes=80 << 30, power_limit_w=400.0, sm_clock_max_mhz=1_410.0, pcie_max_bytes_s=31.5e9
)
SLO_MS = 40.0
POLICY = demo(1, 1)
SHARED = Facts(offline_present=True, offline_memory_returned=False)
ALONE = Facts()

QUIET: dict[Signal, float] = {
    Signal.GPU_UTIL: 60.0,
    Signal.SM_ACTIVITY: 40.0,
    Signal.SM_OCCUPANCY: 25.0,
    Signal.MEMORY_BANDWIDTH: 30.0,
    Signal.SM_CLOCK: 1_400.0,
    Signal.MEMORY: float(40 << 30),
    Signal.PCIE_RX: 2e9,
    Signal.TEMPERATURE: 55.0,
    Signal.POWER: 220.0,
    Signal.XID: 0.0,
    Signal.ONLINE_P99: 20.0,
    Signal.ONLINE_QPS: 300.0,
}
NOTHING: Values = (None,) * len(SIGNALS)
# 95 % is the limit of the demo's policy, and what its reserve leaves.
FULL_CARD = float(int(0.97 * (80 << 30)))


def values(**changes: float | None) -> Values:
    """A quiet sample in wire units, with some signals changed by name."""
    changed = QUIET | {Signal(name): value for name, value in changes.items()}
    return tuple(changed[signal] for signal in SIGNALS)


def seen(**changes: float | None) -> Reading:
    return reading(values(**changes), GPU, SLO_MS)


class Bench:
    """Feeds samples to one monitor and keeps all that came of them, and the record to replay."""

    def __init__(self, policy: AgentPolicy = POLICY, monitor: Monitor | None = None) -> None:
        self.policy = policy
        self.monitor = monitor or Monitor()
        self.facts = SHARED
        self.now = 0.0
        self.ticks = 0
        self.second: list[Values] = []
        self.transitions: list[Transition] = []
        self.actions: list[Action] = []
        self.record: list[Record] = []

    def run(self, seconds: float, **changes: float | None) -> Bench:
        """The same sample for a while, 5 times a second."""
        for _ in range(round(seconds * 5)):
            self.tick(values(**changes))
        return self

    def tick(self, sample: Values) -> Step:
        """One local sample, and the wire sample of each fifth."""
        self.now = round(self.now + 0.2, 6)
        self.ticks += 1
        sane = plausible(sample, GPU)
        self.second.append(sane)
        last = reading(sane, GPU, SLO_MS)
        step = self._keep(machine.local_step(self.monitor, last, self.policy, self.facts, self.now))
        for moved in step.transitions:
            self.record.append(LocalEvent(self.now, moved.samples, self.facts))
        return self.wire(last) if self.ticks % 5 == 0 else step

    def wire(self, last: Reading) -> Step:
        worst_of_second = reading(worst(self.second), GPU, SLO_MS)
        self.second = []
        self.record.append(WireSample(self.now, last, worst_of_second, self.facts))
        return self._keep(
            machine.wire_step(
                self.monitor, last, worst_of_second, self.policy, self.facts, self.now
            )
        )

    def _keep(self, step: Step) -> Step:
        self.monitor = step.monitor
        self.transitions += step.transitions
        self.actions += step.actions
        return step

    @property
    def state(self) -> GpuState:
        return self.monitor.state

    @property
    def path(self) -> list[GpuState]:
        return [moved.to_state for moved in self.transitions]

    @property
    def done(self) -> list[ActionKind]:
        return [action.kind for action in self.actions]

    @property
    def evictions(self) -> list[Origin | None]:
        return [action.origin for action in self.actions if action.kind is ActionKind.EVICT]


def healthy(policy: AgentPolicy = POLICY) -> Bench:
    """A bench whose GPU has been quiet and shared for some seconds."""
    bench = Bench(policy).run(4)
    assert bench.state is GpuState.HEALTHY
    return bench


def evicted(bench: Bench) -> Bench:
    """Drive it over its limit until the job is gone and the cool-down begins."""
    bench.facts = SHARED
    bench.run(8, online_p99=80.0)
    bench.facts = ALONE
    bench.run(1)
    assert bench.state is GpuState.COOLDOWN
    return bench
