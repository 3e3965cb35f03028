"""Take in what nodes say is true: limits, progress, states, and how placements ended.

A status may come late or twice; it only moves a row forward (lifecycle.REPORTS) and costs a few
reads when it says nothing new. Endings come as events, once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from agents.wire.messages import Event, GpuStatus, PlacementStatus, Status
from agents.wire.names import EndReason, Origin, PlacementState
from console import doorbell
from console.announce import announce
from console.evictions import services as evictions
from console.evictions.lifecycle import UNDER_WAY
from console.inventory import nodes
from console.inventory.models import Gpu, Node
from console.policies import rules
from console.policies import services as policies
from console.scheduling import avoid, coverage, jobs, lifecycle
from console.scheduling.models import Placement

log = logging.getLogger(__name__)

# What moves all the time (progress, duty, memory) is written this often; states at once.
PROGRESS_EVERY_S: Final = 5.0
# A message that was on its way when we last heard the node may have renewed its lease.
LEASE_MARGIN_S: Final = 5.0
# A job of more processes than this is a broken or hostile agent.
MOST_PROCESSES: Final = 100_000
REMARKS: Final = 8
REMARK_CHARS: Final = 300

NOBODY: Final = UUID(int=0)

Change = tuple[Any, dict[str, Any]]


# --- status -------------------------------------------------------------------------------


def apply_status(node: Node, status: Status, now: datetime) -> None:
    """Write what differs from what we knew."""
    node_facts = _node_facts(node, status, now)
    gpus = list(_gpu_changes(node, status.gpus, now))
    placements = list(_placement_changes(node, status.placements, now))
    if not (node_facts or gpus or placements):
        return
    with transaction.atomic():
        if node_facts:
            Node.objects.filter(pk=node.pk).update(**node_facts)
        for rows, facts in (*gpus, *placements):
            rows.update(**facts)
        if node_facts or gpus:
            announce("node", node=node.pk)


def _node_facts(node: Node, status: Status, now: datetime) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "observed_generation": status.observed_generation,
        "observed_policies": status.policy_versions,
        "refused": status.refused,
    }
    changed = {name: value for name, value in facts.items() if getattr(node, name) != value}
    return changed | {"observed_at": now} if changed else {}


def _gpu_changes(node: Node, reports: Sequence[GpuStatus], now: datetime) -> Iterator[Change]:
    gpus = {gpu.index: gpu for gpu in Gpu.objects.filter(node=node, retired_at=None)}
    for report in reports:
        gpu = gpus.get(report.index)
        if gpu is None:
            continue
        facts: dict[str, Any] = {
            "state_why": report.why[:300],
            "degraded": list(report.degraded),
            "unshareable_fact": report.unshareable_fact[:200],
        }
        changed = {name: value for name, value in facts.items() if getattr(gpu, name) != value}
        if gpu.state != report.state:
            changed |= {"state": report.state, "state_since": _moment(report.since, now)}
        if changed:
            yield Gpu.objects.filter(pk=gpu.pk, state=gpu.state), changed


def _placement_changes(
    node: Node, reports: Sequence[PlacementStatus], now: datetime
) -> Iterator[Change]:
    live = Placement.objects.filter(gpu__node=node, state__in=lifecycle.LIVE)
    rows = {str(placement.pk): placement for placement in live}
    for report in reports:
        placement = rows.get(report.placement_id)
        if placement is None or report.state is PlacementState.ENDED:
            continue
        if changed := _placement_facts(placement, report, now):
            yield Placement.objects.filter(pk=placement.pk, state=placement.state), changed


def _placement_facts(
    placement: Placement, report: PlacementStatus, now: datetime
) -> dict[str, Any]:
    facts = _limits(placement, report)
    state = lifecycle.after_report(PlacementState(placement.state), report.state)
    if state != placement.state:
        facts |= {"state": state, "state_since": now, "lease_until": None}
    if _runs(state) and placement.started_at is None:
        facts["started_at"] = now
    if facts or _is_due(placement, now):
        facts |= _progress(placement, report) | {"observed_at": now}
    return facts


def _limits(placement: Placement, report: PlacementStatus) -> dict[str, Any]:
    """Effective limits, the share that waits for a restart, and what holds or says more of them;
    None where not reported."""
    share = report.sm_share_percent
    waits = share is not None and share != placement.sm_share_percent
    covered, using = coverage.plausible(report.xcuda_coverage, MOST_PROCESSES)
    facts = {
        "effective_sm_share_percent": share,
        "effective_memory_quota_bytes": report.memory_quota_bytes,
        "pending_sm_share_percent": placement.sm_share_percent if waits else None,
        "xcuda_processes": covered,
        "cuda_processes": using,
        "remarks": _sentences(report.remarks),
    }
    return {name: value for name, value in facts.items() if getattr(placement, name) != value}


def _is_due(placement: Placement, now: datetime) -> bool:
    last = placement.observed_at
    return last is None or (now - last).total_seconds() >= PROGRESS_EVERY_S


def _progress(placement: Placement, report: PlacementStatus) -> dict[str, Any]:
    return {
        "effective_duty_percent": report.duty_percent,
        "observed_throughput": report.normalised_throughput,
        "memory_bytes": report.memory_bytes,
        "progress": report.progress,
        "unsaved_work_s": report.unsaved_work_s,
        "work_done_s": placement.work_done_s if report.work_done_s is None else report.work_done_s,
    }


def _runs(state: PlacementState) -> bool:
    return state in {PlacementState.RUNNING, PlacementState.FROZEN}


# --- events -------------------------------------------------------------------------------


def placement_started(node: Node, event: Event, now: datetime) -> None:
    """The process was seen alive; when, by the node's clock."""
    at = _moment(event.at, now)
    placement = _own(node, event)
    if placement is None:
        return
    Placement.objects.filter(pk=placement.pk, started_at=None).update(started_at=at)
    early = (PlacementState.DESIRED, PlacementState.UNKNOWN)
    Placement.objects.filter(pk=placement.pk, state__in=early).update(
        state=PlacementState.STARTING, state_since=at
    )
    announce("jobs", id=placement.job_id)


def placement_ended(node: Node, event: Event, now: datetime) -> None:
    """The outcome of a placement, once; what comes again changes nothing.

    Raises ValueError when the event names a reason that does not exist.
    """
    placement = _own(node, event)
    if placement is None:
        return
    told = {name: _number(event.data.get(name)) for name in _TOLD}
    reason = EndReason(event.data.get("reason", EndReason.LOST))
    if _end(placement, reason, event, now, told) and (said := event.data.get("remarks")):
        Placement.objects.filter(pk=placement.pk).update(remarks=_sentences(said))


_TOLD: Final = ("progress", "work_done_s", "lost_work_s")


def _end(
    placement: Placement,
    reason: EndReason,
    event: Event | None,
    now: datetime,
    told: dict[str, float | None],
) -> bool:
    with transaction.atomic():
        if not jobs.end(placement, reason, now, **told):
            return False
        placement.refresh_from_db()
        if _was_moved(placement):
            doorbell.ring(doorbell.RUN_ROUND)  # its GPU is kept free, so every second counts
        evictions.placement_ended(placement, event, now)
        if event is not None:
            avoid.on_hint(placement, event.data.get("avoid"), str(event.data.get("why", "")), now)
        # The node may forget the placement once its desired state no longer names it.
        nodes.touch([placement.gpu.node_id], now)
    return True


def _was_moved(placement: Placement) -> bool:
    moves = placement.evictions.filter(origin=Origin.MOVE, state__in=UNDER_WAY)
    return moves.exists()


def _own(node: Node, event: Event) -> Placement | None:
    found = Placement.objects.select_related("job", "gpu__node__pool")
    placement = found.filter(pk=event.placement_id or NOBODY, gpu__node=node).first()
    if placement is None:
        log.warning("%s reported placement %s, which is not its own", node, event.placement_id)
    return placement


# --- silent nodes -------------------------------------------------------------------------


def sweep_lost(now: datetime) -> int:
    """Look after the placements of nodes that were given up; how many jobs were queued again."""
    lost = Node.objects.filter(
        state=Node.State.LOST, gpus__placements__state__in=_BEFORE_UNKNOWN
    ).distinct()
    for node in lost:
        node_lost(node, now)
    over = Placement.objects.filter(
        state=PlacementState.UNKNOWN, gpu__node__state=Node.State.LOST, lease_until__lte=now
    ).select_related("job", "gpu__node__pool")
    nothing: dict[str, float | None] = {}
    return sum(_end(placement, EndReason.LOST, None, now, nothing) for placement in over)


_BEFORE_UNKNOWN: Final = tuple(s for s in lifecycle.LIVE if s is not PlacementState.UNKNOWN)


def node_lost(node: Node, now: datetime) -> None:
    """Its placements are UNKNOWN; a new attempt waits until the node must have stopped them.

    The node stops a job by itself when its lease expires, which is at the latest one lease after
    we last heard it, and that stop takes its longest time.
    """
    stop_s = rules.longest_stop_s(body := policies.rules_for(node.pool), body.grace_s)
    wait_s = settings.LEASE_S + LEASE_MARGIN_S + stop_s
    Placement.objects.filter(gpu__node=node, state__in=_BEFORE_UNKNOWN).update(
        state=PlacementState.UNKNOWN,
        state_since=now,
        lease_until=(node.last_seen_at or now) + timedelta(seconds=wait_s),
    )


# --- values -------------------------------------------------------------------------------


def _moment(at: float, now: datetime) -> datetime:
    """The node's time, but never in our future; ours when it is no time at all."""
    try:
        return min(datetime.fromtimestamp(at, UTC), now)
    except (OverflowError, ValueError, OSError):
        return now


def _sentences(value: object) -> list[str]:
    """A node's remarks, the first few, each cut to what a page can show."""
    told = value if isinstance(value, list | tuple) else ()
    return [text[:REMARK_CHARS] for text in told[:REMARKS] if isinstance(text, str)]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
