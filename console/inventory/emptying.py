"""Ask for the end of everything that runs on some GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from agents.wire.names import Origin, PlacementState
from console.audit.services import Actor
from console.evictions import services
from console.evictions.lifecycle import UNDER_WAY
from console.evictions.models import Eviction
from console.inventory.models import Gpu
from console.inventory.nodes import disable_gpu
from console.scheduling.models import Placement


def live_on(gpus: Iterable[Gpu] | QuerySet[Gpu]) -> QuerySet[Placement]:
    """Their placements that are not over, with job and GPU."""
    return (
        Placement.objects.filter(gpu__in=gpus)
        .exclude(state=PlacementState.ENDED)
        .select_related("job", "gpu__node__pool")
        .order_by("gpu__node__name", "gpu__index")
    )


def empty(
    gpus: Iterable[Gpu] | QuerySet[Gpu], origin: Origin, actor: Actor, reason: str, now: datetime
) -> list[Eviction]:
    """One eviction for each live placement; those that are under way already are left alone."""
    return [
        services.request(placement, origin, actor, reason, now)
        for placement in live_on(gpus).exclude(evictions__state__in=UNDER_WAY)
    ]


@transaction.atomic
def take_out(gpu: Gpu, actor: Actor, reason: str, now: datetime) -> list[Eviction]:
    """Disable one GPU and ask for the end of what runs on it. Raises SomebodyWasFirst."""
    disable_gpu(gpu, actor, reason, now)
    return empty([gpu], Origin.STOP_SHARING, actor, reason, now)
