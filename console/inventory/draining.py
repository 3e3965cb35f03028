"""Empty a node on purpose: said before, then no new placements, and the end of what runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import transaction

from agents.wire.names import Checkpoint, Origin, PlacementState
from console.audit.services import Actor, record
from console.errors import SomebodyWasFirst
from console.evictions.lifecycle import UNDER_WAY
from console.evictions.models import Eviction
from console.inventory.emptying import empty, live_on
from console.inventory.models import Gpu, Node
from console.inventory.nodes import touch
from console.scheduling.models import Placement


class Outlook(StrEnum):
    """What a drain means for one placement."""

    EVICT = "evict"
    SKIP = "skip"
    MAY_BLOCK = "may block"


@dataclass(frozen=True)
class Step:
    """One placement of the node, what would become of it, and why."""

    placement: Placement
    outlook: Outlook
    why: str


def preview_drain(node: Node) -> list[Step]:
    """What `drain` would do, placement by placement; changes nothing."""
    gpus = Gpu.objects.filter(node=node)
    return [_step(placement) for placement in live_on(gpus).prefetch_related("evictions")]


@transaction.atomic
def drain(node: Node, actor: Actor, reason: str, now: datetime) -> list[Eviction]:
    """Cordon the node and ask for the end of all that runs there. Raises SomebodyWasFirst."""
    if not Node.objects.filter(pk=node.pk, draining=False).update(cordoned=True, draining=True):
        raise SomebodyWasFirst(f"{node} is being drained already.")
    record(actor, "node.drain", node, now=now, reason=reason)
    touch([node.pk], now)
    return empty(Gpu.objects.filter(node=node), Origin.DRAIN, actor, reason, now)


def _step(placement: Placement) -> Step:
    if placement.state == PlacementState.UNKNOWN:
        return Step(
            placement, Outlook.MAY_BLOCK, "the node is silent, so nobody can stop the job now"
        )
    if any(eviction.state in UNDER_WAY for eviction in placement.evictions.all()):
        return Step(placement, Outlook.SKIP, "it is on its way out already")
    if placement.job.checkpoint == Checkpoint.NONE:
        return Step(placement, Outlook.EVICT, "it saves no work: all since its start is lost")
    return Step(placement, Outlook.EVICT, "it is asked to save its work first")
