"""Take in what nodes tell of faults: the only writer of `Fault`.

A story comes in pieces, each of them whole, late or twice; the one with the highest number holds.
What follows from it (the audit, the hold of the job that faulted) follows once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.wire.messages import Event as NodeReport
from console.announce import announce
from console.audit.services import agent, record
from console.faults import story
from console.faults.models import Fault
from console.faults.story import Process, Side, Story
from console.inventory.models import Gpu, Node
from console.scheduling.models import Placement
from console.workloads import holds
from console.workloads.models import OfflineJob, OnlineService

log = logging.getLogger(__name__)


@transaction.atomic
def agent_told(node: Node, report: NodeReport, now: datetime) -> None:
    """A fault was seen, or its story goes on.

    Raises ValueError when the report names no fault or no GPU of this node.
    """
    told = story.read(report.data)
    gpu = _gpu(node, report.gpu_index)
    at = min(datetime.fromtimestamp(report.at, UTC), now)
    fault = _write(gpu, told, report.seq, at, now)
    if fault is None:
        return
    if told.ended and Fault.objects.filter(pk=fault.pk, ended_at=None).update(ended_at=at):
        took_s = told.recovered_s
        record(agent(node.name), "fault.end", fault, now=now, cause_id=fault.pk, took_s=took_s)
    _hold(fault, now)
    announce("faults", id=fault.pk, gpu=gpu.pk)


def _gpu(node: Node, index: int | None) -> Gpu:
    rows = Gpu.objects.filter(node=node, retired_at=None).select_related("node")
    found = None if index is None else rows.filter(index=index).first()
    if found is None:
        raise ValueError(f"{node} has no GPU {index}")
    return found


def _write(gpu: Gpu, told: Story, seq: int, at: datetime, now: datetime) -> Fault | None:
    """The row as it is now; None when it knows a later telling, or is another GPU's."""
    who = _identify(gpu, told)
    facts = _facts(told) | {"told_at": now, "told_seq": seq} | who.first
    fault, is_new = Fault.objects.get_or_create(
        pk=told.id, defaults={**facts, "gpu": gpu, "seen_at": at}
    )
    if is_new:
        actor, why = agent(gpu.node.name), fault.why
        record(actor, "fault.begin", fault, now=now, reason=why, cause_id=fault.pk)
    elif not Fault.objects.filter(pk=told.id, gpu=gpu, told_seq__lt=seq).update(**facts):
        log.info("%s told of fault %s, number %d: an old story", gpu, told.id, seq)
        return None
    fault.jobs_hit.set(who.jobs_hit)
    fault.services_hit.set(who.services_hit)
    fault.refresh_from_db()
    return fault


def _facts(told: Story) -> dict[str, Any]:
    return {
        "why": told.why,
        "code": told.code,
        "first": told.first and asdict(told.first),
        "first_by": told.first_by,
        "others": [asdict(one) for one in told.others],
        "moments": [asdict(one) for one in told.moments],
        "recovered_s": told.recovered_s,
    }


@dataclass(frozen=True)
class _Known:
    """Whose the processes were. `first`: the values of `placement`, `job` and `service`."""

    first: dict[str, Any]
    jobs_hit: list[OfflineJob]
    services_hit: list[OnlineService]


def _identify(gpu: Gpu, told: Story) -> _Known:
    """Only what is or was on this node counts: a node cannot accuse another one's jobs."""
    processes = [*([told.first] if told.first else []), *told.others]
    ids = [UUID(one.placement_id) for one in processes if one.placement_id]
    rows = Placement.objects.filter(pk__in=ids, gpu__node=gpu.node_id).select_related("job")
    placements = {str(placement.pk): placement for placement in rows}
    services = _services(gpu, processes)
    jobs = [placements[i].job for one in told.others if (i := one.placement_id) in placements]
    online = {one.name for one in told.others if one.side == Side.ONLINE}
    return _Known(
        _first(told.first, placements, services),
        jobs,
        [service for name, service in services.items() if name in online],
    )


def _services(gpu: Gpu, processes: Iterable[Process]) -> dict[str, OnlineService]:
    names = {one.name for one in processes if one.side == Side.ONLINE}
    rows = OnlineService.objects.filter(name__in=names, instances__gpu__node=gpu.node_id)
    return {service.name: service for service in rows.distinct()}


def _first(
    first: Process | None,
    placements: dict[str, Placement],
    services: dict[str, OnlineService],
) -> dict[str, Any]:
    placement = service = None
    if first is not None and first.side == Side.OFFLINE:
        placement = placements.get(first.placement_id or "")
    elif first is not None and first.side == Side.ONLINE:
        service = services.get(first.name)
    job_id = placement and placement.job_id
    return {"placement": placement, "job_id": job_id, "service": service}


def _hold(fault: Fault, now: datetime) -> None:
    """Its job is held once for it, however often and in whatever words it is told."""
    if fault.job_id is None:
        return
    if Fault.objects.filter(pk=fault.pk, counted=False).update(counted=True):
        holds.hold(fault.job_id, agent(fault.gpu.node.name), fault.seen_at, now, cause_id=fault.pk)
