"""Let the shares of running jobs follow the online load that is expected.

The share is fixed when a client starts, so a new one waits for the next start; until then a duty
cap on the node holds the job to it. Both are desired state: the node converges. Where a larger
share is worth a restart, that is proposed as a move of the job to the GPU it is on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction

from agents.wire.names import Origin, PlacementState
from console.errors import Unavailable
from console.evictions import services as evictions
from console.inventory import nodes
from console.scheduling import reading
from console.scheduling.limits import Limits, Renewed
from console.scheduling.models import Placement
from console.scheduling.snapshot import Snapshot
from console.telemetry import live_store
from console.workloads.models import OfflineJob

_RUNNING = (PlacementState.RUNNING, PlacementState.FROZEN)


Renew = Callable[[Snapshot, Mapping[UUID, Limits]], Mapping[UUID, Renewed]]


def reallocate(now: datetime, renew: Renew) -> int:
    """How many placements got new limits. Without live data nothing changes."""
    try:
        live = live_store.read()
    except Unavailable:
        return 0
    heard = {gpu_id: sample for gpu_id, sample in live.items() if sample.is_live}
    rows = Placement.objects.filter(state__in=_RUNNING, job__state=OfflineJob.State.PLACED)
    rows = rows.select_related("gpu__node__pool")  # one that is being measured is left alone
    placements = {one.pk: one for one in rows if one.gpu_id in heard}
    if not placements:
        return 0
    snapshot = reading.running(heard, now)
    before = {pk: _limits(one) for pk, one in placements.items()}
    renewed = renew(snapshot, before)
    changed = sum(
        _write(placements[pk], before[pk], one, now)
        for pk, one in renewed.items()
        if one.limits != before[pk]
    )
    _say(placements, renewed)
    _propose(placements, renewed, dict(snapshot.restarts_left), now)
    return changed


def _limits(placement: Placement) -> Limits:
    return Limits(
        placement.effective_sm_share_percent, placement.sm_share_percent, placement.duty_percent
    )


@transaction.atomic
def _write(placement: Placement, before: Limits, renewed: Renewed, now: datetime) -> bool:
    """Whether the node is told: not when somebody else changed the limits meanwhile."""
    after = renewed.limits
    same = Placement.objects.filter(
        pk=placement.pk,
        state__in=_RUNNING,
        sm_share_percent=before.desired,
        duty_percent=before.duty,
    )
    waits = after.started is not None and after.started != after.desired
    if not same.update(
        sm_share_percent=after.desired,
        duty_percent=after.duty,
        pending_sm_share_percent=after.desired if waits else None,
    ):
        return False
    nodes.touch([placement.gpu.node_id], now)
    return True


def _say(placements: Mapping[UUID, Placement], renewed: Mapping[UUID, Renewed]) -> None:
    """What waits, and why: words that change each time, and tell no node anything."""
    said = []
    for pk, one in renewed.items():
        if placements[pk].pending_why != one.pending_why:
            placements[pk].pending_why = one.pending_why
            said.append(placements[pk])
    Placement.objects.bulk_update(said, ["pending_why"], batch_size=500)


def _propose(
    placements: Mapping[UUID, Placement],
    renewed: Mapping[UUID, Renewed],
    left: dict[str, int],
    now: datetime,
) -> None:
    """Restarts that pay back, most gained first, as many as the pools have left this hour."""
    worth = {pk: one.restart for pk, one in renewed.items() if one.restart is not None}
    for pk in sorted(worth, key=lambda pk: (-worth[pk]["gain"], pk)):
        placement, evidence = placements[pk], dict(worth[pk])
        pool = placement.gpu.node.pool.name
        if left.get(pool, 0) <= 0:
            continue
        why = (
            f"it started with {evidence['share_now_percent']:g} % of the SMs and may have"
            f" {evidence['share_then_percent']:g} % now"
        )
        proposed = evictions.propose(
            placement, Origin.MOVE, why, evidence, now, to_gpu=placement.gpu
        )
        left[pool] -= proposed is not None
