"""Take in what nodes say is true: limits, progress, states, and how placements ended.

A status may come late or twice; it only moves a row forward (lifecycle.REPORTS) and costs a few
reads when it says nothing new. Endings come as events, once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

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
# Longer than any policy allows, so a broken or hostile agent.
MOST_COOLDOWN_S: Final = 86_400.0
REMARKS: Final = 8
REMARK_CHARS: Final = 300

NOBODY: Final = UUID(int=0)

Of = TypeVar("Of")

# What `_placement_facts` writes of a placement that goes on as before.
_PROGRESS: Final = frozenset(
    {
        *("effective_duty_percent", "observed_throughput", "memory_bytes", "progress"),
        *("unsaved_work_s", "work_done_s", "observed_at"),
    }
)


Change: TypeAlias = tuple[Of, dict[str, Any]]


class _Changes(NamedTuple):
    """What differs: rows as they were read, and what is to be written of each."""

    nodes: list[Change[int]]
    gpus: list[Change[Gpu]]
    placements: list[Change[Placement]]


# --- status -------------------------------------------------------------------------------


def apply_statuses(statuses: Mapping[int, Status], now: datetime) -> None:
    """Write what differs from what we knew, by node id; a few questions for all of them. Nodes that
    are gone are left out."""
    nodes = Node.objects.in_bulk(statuses)
    changes = _Changes([], [], [])
    for node in nodes.values():
        if facts := _node_facts(node, statuses[node.pk], now):
            changes.nodes.append((node.pk, facts))
    changes.gpus.extend(_gpu_changes(nodes, statuses, now))
    changes.placements.extend(_placement_changes(nodes, statuses, now))
    if any(changes):
        _write(changes)


def _write(changes: _Changes) -> None:
    """Each row is its own compare-and-set: no transaction holds the rows of many nodes. What a
    failure leaves half written, the same status written again makes whole."""
    for node_id, facts in changes.nodes:
        Node.objects.filter(pk=node_id).update(**facts)
    _write_many(Gpu, changes.gpus)
    _write_many(Placement, [each for each in changes.placements if each[1].keys() == _PROGRESS])
    for placement, facts in changes.placements:
        if facts.keys() != _PROGRESS:
            Placement.objects.filter(pk=placement.pk, state=placement.state).update(**facts)
    told = {node_id for node_id, _ in changes.nodes} | {gpu.node_id for gpu, _ in changes.gpus}
    for node_id in sorted(told):
        announce("node", node=node_id)


def _write_many(model: type[Gpu | Placement], changes: Sequence[Change[Any]]) -> None:
    """Rows of which the same columns are written, sent to the database together."""
    if not changes:
        return
    columns = {field.name: field for field in model._meta.concrete_fields}
    fields, key = [columns[name] for name in changes[0][1]], columns["id"]
    quoted = connection.ops.quote_name
    sets = ", ".join(f"{quoted(str(field.column))} = %s" for field in fields)
    table, where = quoted(model._meta.db_table), f"{quoted(str(key.column))} = %s AND state = %s"
    rows = [
        [
            *(field.get_db_prep_save(facts[field.name], connection) for field in fields),
            key.get_db_prep_save(row.pk, connection),
            row.state,
        ]
        for row, facts in changes
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        # The names are the model's own.
        cursor.executemany(f"UPDATE {table} SET {sets} WHERE {where}", rows)  # noqa: S608


def _node_facts(node: Node, status: Status, now: datetime) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "observed_generation": status.observed_generation,
        "observed_policies": status.policy_versions,
        "refused": status.refused,
    }
    changed = {name: value for name, value in facts.items() if getattr(node, name) != value}
    return changed | {"observed_at": now} if changed else {}


def _gpu_changes(
    nodes: Collection[int], statuses: Mapping[int, Status], now: datetime
) -> Iterator[Change[Gpu]]:
    told = {
        (node_id, report.index): report for node_id in nodes for report in statuses[node_id].gpus
    }
    for gpu in Gpu.objects.filter(node__in=nodes, retired_at=None).order_by("pk"):
        report = told.get((gpu.node_id, gpu.index))
        if report is not None and (changed := _gpu_facts(gpu, report, now)):
            yield gpu, changed


def _gpu_facts(gpu: Gpu, report: GpuStatus, now: datetime) -> dict[str, Any]:
    """All of them when one differs."""
    moved = gpu.state != report.state
    facts: dict[str, Any] = {
        "state": report.state,
        "state_since": _moment(report.since, now) if moved else gpu.state_since,
        "state_why": report.why[:300],
        "cooldown_s": min(max(0.0, report.cooldown_s), MOST_COOLDOWN_S),
        "degraded": list(report.degraded),
        "unshareable_fact": report.unshareable_fact[:200],
    }
    differs = any(getattr(gpu, name) != value for name, value in facts.items())
    return facts if differs else {}


def _placement_changes(
    nodes: Collection[int], statuses: Mapping[int, Status], now: datetime
) -> Iterator[Change[Placement]]:
    live = Placement.objects.filter(gpu__node__in=nodes, state__in=lifecycle.LIVE)
    rows = {
        (placement.gpu.node_id, str(placement.pk)): placement
        for placement in live.select_related("gpu").order_by("pk")
    }
    for node_id in nodes:
        for report in statuses[node_id].placements:
            placement = rows.get((node_id, report.placement_id))
            if placement is None or report.state is PlacementState.ENDED:
                continue
            if changed := _placement_facts(placement, report, now):
                yield placement, changed


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
