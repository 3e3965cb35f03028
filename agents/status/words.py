"""A snapshot in words, and what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agents.status.snapshot import (
    GpuView,
    LinkView,
    NodeView,
    PlacementView,
    ProcessView,
    SignalView,
    Snapshot,
    SourceView,
)
from agents.wire.names import UNITS, Signal

# Periods without a word after which what was said is old.
PATIENCE: Final = 3
UNITS_OF_TIME: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def trouble(snapshot: Snapshot | None, running_pid: int | None, where: Path, wall: float) -> str:
    """Why the snapshot does not show the agent as it is now, "" when it does."""
    if running_pid is None:
        heard = (
            "" if snapshot is None else f"; the last was heard of {span(wall - snapshot.at)} ago"
        )
        return f"no agent runs on {where}{heard}"
    if snapshot is None or snapshot.pid != running_pid:
        return f"the agent (PID {running_pid}) has only just started: it has said nothing yet"
    age_s = wall - snapshot.at
    if age_s > PATIENCE * snapshot.period_s:
        return f"the agent (PID {running_pid}) has said nothing for {span(age_s)}: this is old"
    return ""


def as_text(snapshot: Snapshot, wall: float) -> str:
    up, age = span(wall - snapshot.started_at), span(wall - snapshot.at)
    head = f"muxflow-agent {snapshot.version}, PID {snapshot.pid}, up {up}, as of {age} ago"
    return "\n".join([head, *(line for node in snapshot.nodes for line in _node(node, wall))])


def _node(node: NodeView, wall: float) -> Iterator[str]:
    yield ""
    yield f"{node.name}  {_link(node.link)}"
    policies = ", ".join(f"{name} {version}" for name, version in node.policy_versions.items())
    yield f"  orders     generation {node.generation}, policy {policies or 'none yet'}"
    yield f"  lease      {_lease(node.lease_left_s)}"
    if node.refusal:
        yield f"  refused    {node.refusal}"
    dropped = f", {node.spool.dropped} dropped" if node.spool.dropped else ""
    yield f"  spool      {node.spool.waiting} events waiting{dropped}"
    for source in node.sources:
        yield f"  collector  {_source(source)}"
    for gpu in node.gpus:
        yield from _gpu(gpu, wall)
    for placement in node.placements:
        yield f"  job        {_placement(placement)}"


def _link(link: LinkView) -> str:
    if link.up:
        return f"connected to the console, {link.reconnects} reconnects"
    return f"not connected to the console: {link.complaint or 'not tried yet'}"


def _lease(left_s: float) -> str:
    return f"{left_s:.0f} s left" if left_s > 0 else "none: no offline work may run"


def _source(source: SourceView) -> str:
    if not source.success:
        return f"{source.name}: failed: {source.why}"
    return f"{source.name}: {_ms(source.duration_s)}, {_age(source.age_s)}"


def _gpu(gpu: GpuView, wall: float) -> Iterator[str]:
    yield f"  GPU {gpu.index}  {gpu.model}  {gpu.uuid}  mode {gpu.mode}"
    why = f": {gpu.why}" if gpu.why else ""
    yield f"    {'state':17} {gpu.state} for {span(wall - gpu.since)}{why}"
    if gpu.unshareable:
        yield f"    {'unshareable':17} {gpu.unshareable}"
    if gpu.headroom_percent is not None:
        yield f"    {'headroom':17} {gpu.headroom_percent:.0f} % ({gpu.nearest_signal})"
    if gpu.degraded:
        yield f"    {'degraded':17} missing {', '.join(gpu.degraded)}"
    if gpu.throttled:
        yield f"    {'clock lowered by':17} {', '.join(gpu.throttled)}"
    for signal in gpu.signals:
        yield f"    {signal.signal:17} {_signal(signal)}"
    for process in gpu.processes or ():
        yield f"    {process.side:17} {_process(process)}"


def _signal(signal: SignalView) -> str:
    if signal.value is None:
        return f"missing: {signal.why}"
    source = f"  {signal.source}, {_age(signal.age_s)}" if signal.source else ""
    return f"{_value(signal.signal, signal.value)}{source}"


def _process(one: ProcessView) -> str:
    whose = one.workload or one.placement_id
    who = f"{whose}: {one.name}" if whose else one.name or "unknown"
    memory = "memory unknown" if one.memory_bytes is None else _gib(one.memory_bytes)
    return f"{who} (PID {one.pid}), {memory}{', MPS client' if one.mps else ''}"


def _value(signal: Signal, value: float) -> str:
    if signal is Signal.XID:
        return f"{value:.0f}" if value else "none"
    unit = UNITS[signal]
    if unit.startswith("bytes"):
        return f"{value / (1 << 30):.1f} GiB{unit.removeprefix('bytes')}"
    return f"{value:,.0f} {unit}" if value >= 1_000 else f"{value:.4g} {unit}"


def _placement(one: PlacementView) -> str:
    limits = [
        f"SM share {_percent(one.sm_share_percent)}",
        f"duty {_percent(one.duty_percent)}",
        f"memory quota {_gib(one.memory_quota_bytes)}",
    ]
    phase = f" {one.phase}" if one.phase else ""
    why = f": {one.why}" if one.why else ""
    return (
        f"{one.placement_id} {one.job} on GPU {one.gpu_index}  {one.state}{phase}{why}"
        f"  ({', '.join(limits)})"
    )


def _percent(value: float | None) -> str:
    return "unlimited" if value is None else f"{value:.0f} %"


def _gib(value: int | None) -> str:
    return "unlimited" if value is None else f"{value / (1 << 30):.1f} GiB"


def _ms(seconds: float | None) -> str:
    return "no duration" if seconds is None else f"{seconds * 1_000:.1f} ms"


def _age(seconds: float | None) -> str:
    return "of unknown age" if seconds is None else f"{seconds:.1f} s ago"


def span(seconds: float) -> str:
    """A length of time in its largest unit."""
    for size, unit in UNITS_OF_TIME:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
