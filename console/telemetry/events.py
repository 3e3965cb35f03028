"""Agents' events: stored once, in order, then handed to whoever acts on them, then acknowledged.

An event is one transaction: its row, what it causes, and the node's acknowledged number. Those from
which nothing follows are written together, of many nodes at once. An event
that cannot be acted on is stored with the reason and acknowledged, so that it never holds up those
behind it; only a database that does not answer does that.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db import InterfaceError, OperationalError, transaction

from agents.wire.limits import MAX_DATA_BYTES, MAX_EVENTS_PER_BATCH, MAX_SEQ, MAX_SKEW_S
from agents.wire.messages import Event, EventBatch
from agents.wire.names import EventKind
from console.announce import announce
from console.errors import Invalid
from console.evictions import services as evictions
from console.faults import services as faults
from console.inventory.models import Gpu, Node
from console.scheduling import observed, profiling
from console.telemetry.models import NodeEvent

log = logging.getLogger(__name__)

# A NUL as JSON writes it, and not the text of one, whose backslash is written twice.
_NUL: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")

Handler = Callable[[Node, Event, datetime], object]

HANDLERS: Final[Mapping[EventKind, Handler]] = {
    EventKind.PLACEMENT_STARTED: observed.placement_started,
    EventKind.PLACEMENT_ENDED: observed.placement_ended,
    EventKind.EVICTION_STARTED: evictions.agent_started,
    EventKind.EVICTION_PHASE: evictions.agent_phase,
    EventKind.EVICTION_STUCK: evictions.agent_stuck,
    EventKind.EVICTION_PROPOSED: evictions.agent_proposed,
    EventKind.EVICTION_FAILED: evictions.agent_failed,
    EventKind.GPU_FAULT: faults.agent_told,
    EventKind.JOB_PROFILED: profiling.agent_measured,
}


def persist_many(batches: Mapping[int, EventBatch], now: datetime) -> dict[int, int | Exception]:
    """By node id, the number up to which everything is durable, or why nothing more is: Invalid
    for a batch beyond its limit, and for one before which others are missing: the agent sends those
    again, and then this one."""
    nodes = Node.objects.in_bulk(batches)
    gpu_ids = _gpu_ids(nodes)
    answers: dict[int, int | Exception] = {}
    fresh: dict[int, list[Event]] = {}
    for node_id, node in nodes.items():
        try:
            fresh[node_id] = _fresh(node, batches[node_id], now)
        except Invalid as error:
            answers[node_id] = error
    told = {node_id: events for node_id, events in fresh.items() if _are_only_told(events)}
    kept = _keep_many(told, gpu_ids, now)
    for node_id, events in fresh.items():
        if node_id not in kept:
            for event in events:
                _store(nodes[node_id], event, gpu_ids[node_id], now)
        answers[node_id] = max([nodes[node_id].acked_event_seq, *(each.seq for each in events)])
    gone = Invalid("This node does not exist any more.")
    return {node_id: answers.get(node_id, gone) for node_id in batches}


def _gpu_ids(node_ids: Collection[int]) -> dict[int, dict[int, int]]:
    """The id of the GPU at each index, by node id."""
    found: dict[int, dict[int, int]] = {node_id: {} for node_id in node_ids}
    gpus = Gpu.objects.filter(node__in=node_ids, retired_at=None)
    for node_id, index, gpu_id in gpus.values_list("node_id", "index", "id"):
        found[node_id][index] = gpu_id
    return found


def _fresh(node: Node, batch: EventBatch, now: datetime) -> list[Event]:
    """Those that are not durable yet, in order. Raises Invalid."""
    if len(batch.events) > MAX_EVENTS_PER_BATCH:
        raise Invalid(
            f"{node} sent {len(batch.events)} events at once; the limit is {MAX_EVENTS_PER_BATCH}."
        )
    acked = node.acked_event_seq
    if batch.after_seq is not None and batch.after_seq > acked:
        raise Invalid(
            f"{node} sent events that follow on number {batch.after_seq}, and those after {acked}"
            " have not come: it sends them again."
        )
    fresh = []
    for event in sorted(batch.events, key=lambda event: event.seq):
        if acked < event.seq <= MAX_SEQ:
            fresh.append(_plausible(event, now))
            acked = event.seq
    return fresh


def _are_only_told(events: Sequence[Event]) -> bool:
    """Whether nothing follows from any of them here: then they need no transaction each."""
    return all(event.kind not in HANDLERS and _has_ids(event) for event in events)


def _keep_many(
    told: Mapping[int, Sequence[Event]], gpu_ids: Mapping[int, Mapping[int, int]], now: datetime
) -> Collection[int]:
    """The nodes whose events were written. The rows first: whose number was not moved, because we
    ended between, sends them again, and they are known."""
    rows = [
        NodeEvent(event_id=UUID(event.event_id), **_row(node_id, event, gpu_ids[node_id], now))
        for node_id, events in told.items()
        for event in events
    ]
    try:
        with transaction.atomic():
            NodeEvent.objects.bulk_create(rows, ignore_conflicts=True)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("%d events could not be written together, each is by itself", len(rows))
        return ()
    for node_id, events in told.items():
        if events:
            _acknowledge(node_id, events[-1].seq)
    for row in rows:
        announce("gpu", gpu=row.gpu_id, kind=row.kind)
    return told


def _store(node: Node, event: Event, gpu_ids: Mapping[int, int], now: datetime) -> None:
    if not _has_ids(event):
        log.warning("%s: event %d names no valid UUID, dropped", node, event.seq)
        _acknowledge(node.pk, event.seq)
        return
    try:
        with transaction.atomic():
            if _keep(node, event, gpu_ids, now):
                HANDLERS.get(event.kind, _nobody)(node, event, now)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("%s: event %d (%s) could not be acted on", node, event.seq, event.kind)
        story = {**event.data, "not_acted_on": f"{type(error).__name__}: {error}"[:500]}
        with transaction.atomic():
            _keep(node, msgspec.structs.replace(event, data=story), gpu_ids, now)


def _keep(node: Node, event: Event, gpu_ids: Mapping[int, int], now: datetime) -> bool:
    """Write the row and move the acknowledged number. False when the event was known already."""
    facts = _row(node.pk, event, gpu_ids, now)
    _, is_new = NodeEvent.objects.get_or_create(event_id=UUID(event.event_id), defaults=facts)
    _acknowledge(node.pk, event.seq)
    announce("gpu", gpu=facts["gpu_id"], kind=event.kind)
    return is_new


def _row(node_id: int, event: Event, gpu_ids: Mapping[int, int], now: datetime) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "seq": event.seq,
        "kind": event.kind,
        "at": datetime.fromtimestamp(event.at, UTC),
        "received_at": now,
        "gpu_id": None if event.gpu_index is None else gpu_ids.get(event.gpu_index),
        "placement_id": event.placement_id or None,
        "eviction_id": event.eviction_id or None,
        "data": event.data,
    }


def _acknowledge(node_id: int, seq: int) -> None:
    Node.objects.filter(pk=node_id, acked_event_seq__lt=seq).update(acked_event_seq=seq)


def _nobody(node: Node, event: Event, now: datetime) -> None:
    """Kinds that are only told: nothing else follows from them here."""


def _plausible(event: Event, now: datetime) -> Event:
    """With a time that can be and data that can be stored: nobody behind this looks again."""
    at = _moment(event.at, now)
    return msgspec.structs.replace(event, at=at.timestamp(), data=_clean(event.data))


def _clean(data: dict[str, Any]) -> dict[str, Any]:
    """As JSON that every database takes: no NaN, no bytes, no NUL, not too much."""
    try:
        text = _NUL.sub(rb"\1", msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return {"unreadable": str(error)}
    if len(text) > MAX_DATA_BYTES:
        return {"unreadable": f"{len(text)} bytes of data; the limit is {MAX_DATA_BYTES}"}
    return msgspec.json.decode(text, type=dict[str, Any])


def _moment(at: float, now: datetime) -> datetime:
    """The agent's time; ours when it lies in the future or is no time at all."""
    if not math.isfinite(at) or not 0 < at <= now.timestamp() + MAX_SKEW_S:
        return now
    return datetime.fromtimestamp(at, UTC)


def _has_ids(event: Event) -> bool:
    """Whether its id is a UUID, and those it refers to are, or are absent."""
    try:
        for text in (event.event_id, event.placement_id or None, event.eviction_id or None):
            if text is not None:
                UUID(text)
    except ValueError:
        return False
    return True
