"""Take in what nodes tell of faults: the only writer of `Fault`.

A story comes in pieces, each of them whole, late or twice; the one with the highest number holds.
What follows from it (the audit, the hold of the job that faulted) follows once.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from agents.wire.messages import Event as NodeReport
from console.announce import announce
from console.audit.services import agent, record
from console.faults import identity, story
from console.faults.identity import Known
from console.faults.models import Fault
from console.inventory.models import Gpu, Node
from console.workloads import holds

log = logging.getLogger(__name__)


@transaction.atomic
def agent_told(node: Node, report: NodeReport, now: datetime) -> None:
    """A fault was seen, or its story goes on.

    Raises ValueError when the report names no fault or no GPU of this node.
    """
    told = story.read(report.data)
    gpu = _gpu(node, report.gpu_index)
    at = min(datetime.fromtimestamp(report.at, UTC), now)
    known = identity.identify(gpu, told)
    fault, is_new = Fault.objects.get_or_create(
        pk=told.id, defaults={**_facts(known, report.seq, now), "gpu": gpu, "seen_at": at}
    )
    if is_new:
        _audit(fault, "fault.begin", now, reason=fault.why)
    elif not _go_on(fault, gpu, _facts(known, report.seq, now)):
        log.info("%s told of fault %s, number %d: an old story", gpu, told.id, report.seq)
        return
    fault.jobs_hit.set(known.jobs_hit)
    fault.services_hit.set(known.services_hit)
    if told.ended and Fault.objects.filter(pk=fault.pk, ended_at=None).update(ended_at=at):
        _audit(fault, "fault.end", now, took_s=told.recovered_s)
    _settle(fault, known, now)
    announce("faults", id=fault.pk, gpu=gpu.pk)


def _gpu(node: Node, index: int | None) -> Gpu:
    rows = Gpu.objects.filter(node=node, retired_at=None).select_related("node")
    found = None if index is None else rows.filter(index=index).first()
    if found is None:
        raise ValueError(f"{node} has no GPU {index}")
    return found


def _go_on(fault: Fault, gpu: Gpu, facts: dict[str, Any]) -> bool:
    """False when the row knows a later telling, or is another GPU's."""
    older = Fault.objects.filter(pk=fault.pk, gpu=gpu, told_seq__lt=facts["told_seq"])
    return bool(older.update(**facts))


def _facts(known: Known, seq: int, now: datetime) -> dict[str, Any]:
    told = known.story
    return {
        "told_at": now,
        "told_seq": seq,
        "why": told.why,
        "code": told.code,
        "first": told.first and asdict(told.first),
        "first_by": told.first_by,
        "others": [asdict(one) for one in told.others],
        "moments": [asdict(one) for one in told.moments],
        "recovered_s": told.recovered_s,
        "placement": known.placement,
        "job_id": known.job_id,
        "service": known.service,
    }


def _settle(fault: Fault, known: Known, now: datetime) -> None:
    """The job that was first is held, once for a fault however often it is told; one that was
    held before the node named somebody else is let go."""
    actor, mine = agent(fault.gpu.node.name), Fault.objects.filter(pk=fault.pk)
    if known.story.first is None:
        return
    held = fault.held_job_id
    if held not in (None, known.job_id) and mine.filter(held_job=held).update(held_job=None):
        holds.take_back(held, actor, now, cause_id=fault.pk)
    if known.job_id and mine.filter(held_job=None).update(held_job=known.job_id):
        holds.hold(known.job_id, actor, fault.seen_at, now, cause_id=fault.pk)


def _audit(fault: Fault, action: str, now: datetime, reason: str = "", **data: Any) -> None:
    actor = agent(fault.gpu.node.name)
    record(actor, action, fault, now=now, reason=reason, cause_id=fault.pk, **data)
