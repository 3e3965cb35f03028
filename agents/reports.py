"""What a node tells the console about itself: hello, telemetry, status, transitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agents.actuators.base import Runtime
from agents.guard import Guard
from agents.guests import Guests
from agents.orders import Orders
from agents.sysmonitor.monitor import Facts, Transition
from agents.sysmonitor.recording import coded
from agents.wire.limits import PROTOCOL_MAX, PROTOCOL_MIN, STATUS_PERIOD_S, TELEMETRY_PERIOD_S
from agents.wire.messages import GpuSample, GpuStatus, Hello, PlacementStatus, Status, Telemetry
from agents.wire.names import SharingMode
from agents.wire.version import VERSION

if TYPE_CHECKING:
    from agents.node import Identity

SWITCHED_OFF: Final = "switched off on the node itself (muxflow-agent off)"


def hello(identity: Identity, orders: Orders, runtime: Runtime, last_seq: int) -> Hello:
    return Hello(
        identity.name,
        (PROTOCOL_MIN, PROTOCOL_MAX),
        VERSION,
        identity.boot_id,
        orders.generation,
        orders.fresh_nonce(),
        runtime.kind,
        tuple(gpu.inventory for gpu in identity.gpus),
        tuple(sorted(runtime.capabilities)),
        last_seq,
        identity.cpu_cores,
        identity.host_memory_bytes,
    )


def transition(moved: Transition, known: Facts, after: int) -> dict[str, Any]:
    """The data of a transition event; values in policy units. `after`: the last telemetry's
    number."""
    return {
        "from": moved.from_state,
        "to": moved.to_state,
        "why": moved.why,
        "signal": moved.signal,
        "value": moved.value,
        "limit": moved.limit,
        "samples": [sample.values for sample in moved.samples],
        "facts": coded(known),
        "after": after,
    }


class Reporter:
    """Telemetry once a second; a status when something of note changed, and every few seconds."""

    def __init__(
        self,
        orders: Orders,
        guests: Guests,
        guards: Mapping[int, Guard],
        now: float,
        wall: Callable[[], float],
    ) -> None:
        self._orders, self._guests, self._guards, self.wall = orders, guests, guards, wall
        self._born, self.number = now, -1
        self._status_at = float("-inf")
        self._told: object = None

    def telemetry(self, now: float) -> Telemetry:
        self.count(now)
        samples = tuple(self._sample(each) for each in self._guards.values())
        return Telemetry(self.number, self.wall(), samples)

    def count(self, now: float) -> int:
        """The number of the next telemetry."""
        self.number = max(self.number + 1, int((now - self._born) / TELEMETRY_PERIOD_S))
        return self.number

    def is_due(self, now: float) -> bool:
        """Whether a status goes out even if nothing of note changed."""
        return now - self._status_at >= STATUS_PERIOD_S

    def hurry(self) -> None:
        """The next status is due at once."""
        self._status_at = float("-inf")

    def status(self, now: float) -> Status | None:
        """None when nothing of note changed since the last one, and that is fresh enough."""
        gpus = tuple(self._gpu(each, now) for each in self._guards.values())
        placements = self._guests.statuses(self._orders.placements)
        note = self._of_note(gpus, placements)
        if note == self._told and not self.is_due(now):
            return None
        self._told, self._status_at = note, now
        return Status(
            self._orders.fresh_nonce(),
            self._orders.generation,
            self._orders.policy_versions,
            gpus,
            placements,
            self._orders.lease_left_s(now),
            self._orders.refusal,
        )

    def _of_note(self, gpus: Sequence[GpuStatus], placements: Sequence[PlacementStatus]) -> object:
        """Without what moves all the time: progress, duty, memory in use."""
        return (
            self._orders.generation,
            self._orders.refusal,
            [(gpu.state, gpu.why, gpu.mode, gpu.unshareable_fact, gpu.degraded) for gpu in gpus],
            [(one.placement_id, one.state, one.phase, one.end_reason) for one in placements],
        )

    def _sample(self, each: Guard) -> GpuSample:
        reading, guest = each.reading, self._guests.on_gpu(each.index)
        sides: dict[str, Any] = {"offline_processes": int(guest is not None and not guest.gone)}
        if guest is not None and not guest.facts.unlimited:
            sides["duty_percent"] = guest.duty_percent
        if reading is not None:
            sides |= {
                "sm_online_percent": reading.sm_online_percent,
                "sm_offline_percent": reading.sm_offline_percent,
                "online_processes": reading.online_processes,
                "online_memory_bytes": reading.online_memory_bytes,
                "offline_memory_bytes": reading.offline_memory_bytes,
            }
        return each.telemetry(**sides)

    def _gpu(self, each: Guard, now: float) -> GpuStatus:
        monitor = each.monitor
        return GpuStatus(
            each.index,
            monitor.state,
            self.wall() - (now - monitor.since),
            monitor.why,
            each.mode,
            unshareable(each),
            monitor.cooldown_s,
            each.degraded,
        )


def unshareable(each: Guard) -> str:
    """The fact that forbids to share it, whoever's it is; "" when none does."""
    if each.switched_off:
        return SWITCHED_OFF
    return each.quarantine or each.unshareable or _capped(each)


def _capped(each: Guard) -> str:
    """Told only where it stands in the way: the console then places nothing there."""
    is_wanted = each.target is not None and each.target.mode is SharingMode.ENFORCE
    if not is_wanted or each.gpu.ceiling is SharingMode.ENFORCE:
        return ""
    return f"the node's own settings allow no more than {each.gpu.ceiling} (sharing_ceiling)"
