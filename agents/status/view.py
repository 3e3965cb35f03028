"""A node's own state as those on the node are shown it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.collectors.attribution import GpuProcess
from agents.collectors.base import GpuReading, Look
from agents.guard import Guard
from agents.guest import Guest
from agents.guests import Guests
from agents.link import Link
from agents.orders import Orders
from agents.reports import unshareable
from agents.spool import Spool
from agents.status.snapshot import (
    GpuView,
    LinkView,
    NodeView,
    PlacementView,
    ProcessView,
    SignalView,
    SourceView,
    SpoolView,
)
from agents.wire.messages import PlacementStatus
from agents.wire.names import SIGNALS, UNITS, Signal


@dataclass(frozen=True, slots=True)
class Inside:
    """The parts of one node that status and metrics are made of: to look at, not to touch."""

    name: str
    orders: Orders
    guests: Guests
    guards: Mapping[int, Guard]
    spool: Spool
    looks: tuple[Look, ...]
    samples: int


def node(inside: Inside, link: Link | None, now: float, wall: float) -> NodeView:
    """At `now` (monotonic) and `wall` (Unix), both in seconds."""
    return NodeView(
        inside.name,
        inside.orders.generation,
        inside.orders.policy_versions,
        inside.orders.lease_left_s(now),
        inside.orders.refusal,
        inside.samples,
        tuple(gpu(each, now, wall) for each in inside.guards.values()),
        tuple(_source(look, now) for look in inside.looks),
        _placements(inside),
        LinkView(False, 0, "") if link is None else _link(link),
        SpoolView(inside.spool.count, inside.spool.tally.gaps, inside.spool.tally.dropped),
    )


def gpu(guard: Guard, now: float, wall: float) -> GpuView:
    headroom, nearest = guard.headroom()
    inventory, monitor = guard.gpu.inventory, guard.monitor
    return GpuView(
        inventory.index,
        inventory.uuid,
        inventory.model,
        monitor.state,
        wall - (now - monitor.since),
        monitor.why,
        guard.mode,
        unshareable(guard),
        headroom,
        nearest,
        monitor.cooldown_s,
        guard.degraded,
        () if guard.reading is None else _signals(guard.reading, now),
        None if guard.reading is None else _processes(guard.reading),
        () if guard.reading is None else guard.reading.throttled or (),
    )


def _processes(reading: GpuReading) -> tuple[ProcessView, ...] | None:
    return None if reading.processes is None else tuple(map(_process, reading.processes))


def _process(one: GpuProcess) -> ProcessView:
    return ProcessView(
        one.pid,
        one.side,
        one.name,
        one.workload,
        one.placement_id or "",
        one.memory_bytes,
        one.mps,
    )


def _signals(reading: GpuReading, now: float) -> tuple[SignalView, ...]:
    """All that has a value or a reason for having none."""
    shown = (_signal(reading, place, signal, now) for place, signal in enumerate(SIGNALS))
    return tuple(one for one in shown if one.value is not None or one.why)


def _signal(reading: GpuReading, place: int, signal: Signal, now: float) -> SignalView:
    origin = reading.origins[place] if place < len(reading.origins) else None
    return SignalView(
        signal,
        UNITS[signal],
        reading.values[place],
        "" if origin is None else origin.source,
        None if origin is None else now - origin.at,
        reading.missing.get(signal, ""),
    )


def _source(look: Look, now: float) -> SourceView:
    age_s = None if look.at is None else now - look.at
    return SourceView(look.source, look.success, look.duration_s, age_s, look.why)


def _placements(inside: Inside) -> tuple[PlacementView, ...]:
    told = {one.placement_id: one for one in inside.guests.statuses(())}
    return tuple(_placement(guest, told[guest.placement_id]) for guest in inside.guests)


def _placement(guest: Guest, status: PlacementStatus) -> PlacementView:
    stopping = guest.record.stopping
    return PlacementView(
        guest.placement_id,
        guest.placement.job_name,
        guest.placement.gpu_index,
        status.state,
        status.phase,
        "" if stopping is None else stopping.why,
        status.sm_share_percent,
        status.duty_percent,
        status.memory_quota_bytes,
        status.memory_bytes,
        status.progress,
    )


def _link(link: Link) -> LinkView:
    return LinkView(link.is_up, link.reconnects, link.complaint)
