"""What the services and pages ask the database about evictions."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from agents.wire.messages import Event as NodeReport
from agents.wire.names import Origin, PlacementState
from console.evictions import lifecycle
from console.evictions.lifecycle import State
from console.evictions.models import Eviction, Silence
from console.inventory.models import Node, Pool
from console.scheduling.models import Placement

log = logging.getLogger(__name__)

NOBODY: Final = UUID(int=0)
# One tick handles no more than this; the next one comes a second later.
TICK_ROWS: Final = 500

# All that a page or a sentence about an eviction needs.
WITH_ALL: Final = (
    "placement__job__team",
    "gpu__node__pool__policy__current__policy",
    "to_gpu__node__pool",
    "decided_by",
    "reviewed_by",
)


def load(eviction_id: UUID) -> Eviction:
    """With `WITH_ALL`. Raises Eviction.DoesNotExist."""
    return Eviction.objects.select_related(*WITH_ALL).get(pk=eviction_id)


def find(eviction_id: UUID) -> Eviction | None:
    """With `WITH_ALL`; None when there is none."""
    return Eviction.objects.select_related(*WITH_ALL).filter(pk=eviction_id).first()


def open_of(placement: Placement) -> Eviction | None:
    """The one that has not ended; there is at most one."""
    rows = Eviction.objects.select_related(*WITH_ALL)
    return rows.filter(placement=placement, state__in=lifecycle.OPEN).first()


def due_or_under_way(now: datetime) -> QuerySet[Eviction]:
    """What a tick has to look at, oldest first."""
    due = (
        Q(state=State.APPROVED, dispatch_at__lte=now)
        | Q(state=State.PROPOSED, deadline_at__lte=now)
        | Q(state__in=(State.STOPPING, State.STUCK))
        | Q(state__in=lifecycle.UNDECIDED, to_gpu__isnull=False)
        | Q(placement__state=PlacementState.ENDED)
    )
    rows = Eviction.objects.filter(due, state__in=lifecycle.OPEN).select_related(*WITH_ALL)
    return rows.order_by("proposed_at")[:TICK_ROWS]


def is_silenced(placement: Placement, origin: Origin, now: datetime) -> bool:
    """True while "keep running" holds for this origin and placement."""
    return Silence.objects.filter(placement=placement, origin=origin, until__gt=now).exists()


def gone_by_themselves(pool: Pool, origin: Origin, now: datetime) -> int:
    """How many of this origin went in the last hour without a person's word."""
    return Eviction.objects.filter(
        gpu__node__pool=pool,
        origin=origin,
        decided_by=None,
        dispatch_at__gt=now - timedelta(hours=1),
    ).count()


def placement_of(node: Node, report: NodeReport) -> Placement | None:
    """The placement that `report` names; None, and a word in the log, when it runs elsewhere."""
    found = Placement.objects.select_related("job", "gpu__node__pool__policy__current__policy")
    placement = found.filter(pk=report.placement_id or NOBODY, gpu__node=node).first()
    if placement is None:
        log.warning("%s reported placement %s, which is not its own", node, report.placement_id)
    return placement


def eviction_of(node: Node, report: NodeReport) -> Eviction | None:
    """The eviction that `report` names; None, and a word in the log, when it is elsewhere."""
    found = Eviction.objects.select_related(*WITH_ALL)
    eviction = found.filter(pk=report.eviction_id or NOBODY, gpu__node=node).first()
    if eviction is None:
        log.warning("%s reported eviction %s, which is not its own", node, report.eviction_id)
    return eviction
