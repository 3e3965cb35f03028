"""The agents' tests share one small cast: a node with two GPUs, a console's key, one job."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import off
from agents.actuators.base import Capability, Condition, JobFacts, Limits, Runtime
from agents.collectors.base import GpuReading, NodeReading
from agents.guard import Gpu
from agents.node import Identity, NodeAgent
from agents.ring import Ring
from agents.state import StateFile
from agents.sysmonitor.signals import GpuFacts
from agents.wire import codec
from agents.wire.messages import (
    DesiredGpu,
    DesiredPlacement,
    DesiredState,
    Envelope,
    Event,
    EventBatch,
    GpuInventory,
    PlacementStatus,
    Profile,
    Signed,
    Status,
    Stop,
    Telemetry,
    Unchanged,
)
from agents.wire.names import SIGNALS, EventKind, Origin, RuntimeKind, SharingMode, Signal
from agents.wire.policy import AgentPolicy, Threshold

PLACEMENT_ID = "01920000-0000-7000-8000-000000000001"
EVICTION_ID = "01920000-0000-7000-8000-00000000000e"
KEY = codec.node_key(b"master secret of the tests", "17")
MEMORY = 80 << 30

PROFILE = Profile(
    name="bert",
    sm_percent=60,
    gpu_util_percent=90,
    memory_bytes=8 << 30,
    memory_bandwidth_percent=30,
    work_s=3_600,
)
POLICY = AgentPolicy(
    policy_id=1,
    version=3,
    name="standard",
    thresholds={Signal.SM_ACTIVITY: Threshold(70.0, 90.0, 2.0, 3.0)},
    grace_s=5.0,
)
STOP = Stop(EVICTION_ID, "it moves to a better GPU", 5.0, Origin.MOVE)


def placement(**changes: Any) -> DesiredPlacement:
    fields: dict[str, Any] = {
        "placement_id": PLACEMENT_ID,
        "job_id": "7",
        "job_name": "bert-7",
        "gpu_index": 0,
        "sm_share_percent": 40.0,
        "memory_quota_bytes": 16 << 30,
        "profile": PROFILE,
    }
    return DesiredPlacement(**(fields | changes))


def desired(*placements: DesiredPlacement, **changes: Any) -> DesiredState:
    mode = changes.pop("mode", SharingMode.ENFORCE)
    fields: dict[str, Any] = {
        "generation": 1,
        "nonce": "",
        "lease_s": 600.0,
        "gpus": tuple(DesiredGpu(index, mode, "standard") for index in range(2)),
        "policies": {"standard": POLICY},
        "placements": placements,
    }
    return DesiredState(**(fields | changes))


def sealed(message: Signed, key: bytes = KEY) -> Envelope:
    return codec.seal(message, key)


def identity(boot_id: str = "boot 1") -> Identity:
    gpus = tuple(
        Gpu(GpuInventory(index, f"GPU-{index}", "A100", MEMORY), GpuFacts(MEMORY))
        for index in range(2)
    )
    return Identity("node-01", boot_id, KEY, gpus)


class Sensors:
    """A collector whose values the test sets: quiet GPUs at first."""

    def __init__(self) -> None:
        self.values = {Signal.SM_ACTIVITY: 20.0, Signal.MEMORY: 20.0 * (1 << 30)}
        self.online_processes: int | None = 1
        self.offline_memory_bytes: int | None = 0
        self.processes_at: float | None = None
        self.silent = False
        self.failure: Exception | None = None

    def collect(self, now: float) -> NodeReading | None:
        if self.failure is not None:
            raise self.failure
        if self.silent:
            return None
        return NodeReading(now, tuple(self._gpu(index) for index in range(2)))

    def _gpu(self, index: int) -> GpuReading:
        return GpuReading(
            index,
            tuple(self.values.get(signal) for signal in SIGNALS),
            sm_online_percent=20.0,
            online_processes=self.online_processes,
            offline_memory_bytes=self.offline_memory_bytes,
            processes_at=self.processes_at,
        )


@dataclass
class Jobs:
    """A runtime that only remembers what it was asked, and says what the test wants."""

    kind: RuntimeKind = RuntimeKind.SIMULATED
    capabilities: frozenset[Capability] = frozenset(Capability)
    asked: list[str] = field(default_factory=list)
    facts: dict[str, JobFacts] = field(default_factory=dict)
    after_start: Condition = Condition.ALIVE
    after_adoption: Condition = Condition.VANISHED
    dies_of: frozenset[str] = frozenset({"sigterm", "kill"})
    left_frozen: bool = False
    beats: int = 0
    no_room: str = ""

    def start(self, placement: DesiredPlacement) -> None:
        self.asked.append("start")
        self.facts[placement.placement_id] = JobFacts(self.after_start, pid=4_242)

    def adopt(self, placement: DesiredPlacement) -> None:
        self.asked.append("adopt")
        adopted = JobFacts(self.after_adoption, pid=4_242, frozen=self.left_frozen)
        self.facts[placement.placement_id] = adopted

    def observe(self, placement_id: str, now: float) -> JobFacts:
        return self.facts.get(placement_id, JobFacts(Condition.NEVER_RAN))

    def limits(self, placement_id: str) -> Limits:
        return Limits(sm_share_percent=40.0)

    def launches(self, placement_id: str) -> int | None:
        return None

    def why_no_room(self) -> str:
        return self.no_room

    def beat(self) -> None:
        self.beats += 1

    def set_duty(self, placement_id: str, percent: float) -> None: ...

    def set_memory_quota(self, placement_id: str, memory_quota_bytes: int) -> None:
        self.asked.append(f"quota {memory_quota_bytes}")

    def freeze(self, placement_id: str) -> None:
        self.asked.append("freeze")

    def thaw(self, placement_id: str) -> None:
        self.asked.append("thaw")

    def sigterm(self, placement_id: str, grace_s: float) -> None:
        self._end("sigterm", placement_id, 0)

    def gate(self, placement_id: str) -> None:
        self.asked.append("gate")

    def quiesce(self, placement_id: str) -> None: ...

    def release(self, placement_id: str) -> None: ...

    def terminate_client(self, placement_id: str) -> None:
        self._end("terminate_client", placement_id, -9)

    def kill(self, placement_id: str) -> None:
        self._end("kill", placement_id, -9)

    def forget(self, placement_id: str) -> None:
        self.asked.append("forget")

    def exit(self, code: int, placement_id: str = PLACEMENT_ID) -> None:
        self.facts[placement_id] = JobFacts(Condition.EXITED, exit_code=code)

    def _end(self, how: str, placement_id: str, code: int) -> None:
        self.asked.append(how)
        if how in self.dies_of:
            self.exit(code, placement_id)


class Stage:
    """One node on a clock that the test moves, and the console's pen."""

    def __init__(
        self, state_dir: Path, now: float = 1_000.0, runtime: Runtime | None = None, **jobs: Any
    ) -> None:
        """`runtime` in place of jobs that do what the test says."""
        self.state_dir, self.now, self.wall_s = state_dir, now, 1.7e9
        self.records = bool(jobs.pop("records", False))
        self.sensors, self.jobs = Sensors(), Jobs(**jobs)
        self.runtime: Runtime = self.jobs if runtime is None else runtime
        self.board()

    def board(self, boot_id: str = "boot 1") -> None:
        self.state = StateFile(self.state_dir)
        self.node = NodeAgent(
            identity(boot_id),
            self.state,
            self.sensors,
            self.runtime,
            self.now,
            lambda: self.wall_s,
            ring=Ring(self.state_dir / "ring", ("GPU-0", "GPU-1")) if self.records else None,
        )
        self.events: list[Event] = []
        self.status: Status | None = None
        self.telemetry: Telemetry | None = None

    def die(self) -> None:
        """As by SIGKILL: what is not committed is lost."""
        self.state._unwritten.clear()
        self.state.close()

    def restart(self, boot_id: str = "boot 1") -> None:
        self.die()
        self.board()

    def order(self, message: DesiredState | Unchanged, key: bytes = KEY) -> None:
        """Sends it in answer to a fresh hello."""
        nonce = self.node.hello().nonce
        fields = {name: getattr(message, name) for name in message.__struct_fields__}
        self.node.received(sealed(type(message)(**fields | {"nonce": nonce}), key), self.now)

    def run(self, seconds: float) -> None:
        for tick in range(round(seconds * 10)):
            self.now += 0.1
            self.tick(tick)
        self.receive()

    def tick(self, number: int) -> None:
        """One turn of the loop."""
        if number % 2 == 0:
            self.node.sample(self.now)
        else:
            self.node.step_stops(self.now)
        if number % 10 == 9:
            self.node.decide(self.now, off.read(self.state_dir))
        self.state.commit()

    def receive(self) -> None:
        """All that the node has to send."""
        while (message := self.node.outbox.take(self.now)) is not None:
            if isinstance(message, EventBatch):
                self.events += message.events
            elif isinstance(message, Status):
                self.status = message
            elif isinstance(message, Telemetry):
                self.telemetry = message

    def healthy(self) -> None:
        """Until the GPUs take work."""
        self.order(desired())
        self.run(3)

    def start(self) -> None:
        """One job runs on GPU 0."""
        self.healthy()
        self.order(desired(placement(), generation=2))
        self.run(1)

    def job(self, placement_id: str = PLACEMENT_ID) -> PlacementStatus | None:
        """As the last status has it."""
        told = self.status.placements if self.status else ()
        return next((one for one in told if one.placement_id == placement_id), None)

    def told(self, kind: EventKind) -> list[Event]:
        self.receive()
        return [event for event in self.events if event.kind is kind]

    def phases(self) -> list[str]:
        return [event.data["phase"] for event in self.told(EventKind.EVICTION_PHASE)]
