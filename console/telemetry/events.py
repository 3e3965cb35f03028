"""Agents' events: stored once, in order, then handed to whoever acts on them, then acknowledged.

An event is one transaction: its row, what it causes, and the node's acknowledged number. An event
that cannot be acted on is stored with the reason and acknowledged, so that it never holds up those
behind it; only a database that does not answer does that.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
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


def persist(node: Node, batch: EventBatch, now: datetime) -> int:
    """The number up to which everything is durable. Raises Invalid for a batch beyond its limit,
    and for one before which others are missing: the agent sends those again, and then this one."""
    if len(batch.events) > MAX_EVENTS_PER_BATCH:
        raise Invalid(
            f"{node} sent {len(batch.events)} events at once; the limit is {MAX_EVENTS_PER_BATCH}."
        )
    gpu_ids = dict(Gpu.objects.filter(node=node, retired_at=None).values_list("index", "id"))
    acked = node.acked_event_seq
    if batch.after_seq is not None and batch.after_seq > acked:
        raise Invalid(
            f"{node} sent events that follow on number {batch.after_seq}, and those after {acked}"
            " have not come: it sends them again."
        )
    for event in sorted(batch.events, key=lambda event: event.seq):
        if acked < event.seq <= MAX_SEQ:
            _store(node, _plausible(event, now), gpu_ids, now)
            acked = event.seq
    return acked


def _store(node: Node, event: Event, gpu_ids: Mapping[int, int], now: datetime) -> None:
    if not _has_ids(event):
        log.warning("%s: event %d names no valid UUID, dropped", node, event.seq)
        _acknowledge(node, event.seq)
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
    gpu_id = None if event.gpu_index is None else gpu_ids.get(event.gpu_index)
    _, is_new = NodeEvent.objects.get_or_create(
        event_id=UUID(event.event_id),
        defaults={
            "node": node,
            "seq": event.seq,
            "kind": event.kind,
            "at": datetime.fromtimestamp(event.at, UTC),
            "received_at": now,
            "gpu_id": gpu_id,
            "placement_id": event.placement_id or None,
            "eviction_id": event.eviction_id or None,
            "data": event.data,
        },
    )
    _acknowledge(node, event.seq)
    announce("gpu", gpu=gpu_id, kind=event.kind)
    return is_new


def _acknowledge(node: Node, seq: int) -> None:
    Node.objects.filter(pk=node.pk, acked_event_seq__lt=seq).update(acked_event_seq=seq)


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
