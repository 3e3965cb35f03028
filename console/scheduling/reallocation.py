"""Let the shares of running jobs follow the online load.

The share is fixed when a client starts, so a new one waits for the next start; until then a duty
cap on the node holds the job to it. Both are desired state: the node converges.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from agents.wire.names import PlacementState
from console.errors import Unavailable
from console.inventory import nodes
from console.scheduling import reading
from console.scheduling.limits import Limits, Load
from console.scheduling.models import Placement
from console.telemetry import live_store

_RUNNING = (PlacementState.RUNNING, PlacementState.FROZEN)


Renew = Callable[[Limits, Load], Limits]


def reallocate(now: datetime, renew: Renew) -> int:
    """How many placements got new limits. Without live data nothing changes."""
    try:
        live = live_store.read()
    except Unavailable:
        return 0
    running = Placement.objects.filter(state__in=_RUNNING).select_related("gpu__node__pool")
    placements = [one for one in running if one.gpu_id in live and live[one.gpu_id].is_live]
    gpus = [one.gpu for one in placements]
    profiles = reading.profiles_of(gpus)
    uses = {gpu.pk: reading.online_use(profiles[gpu.pk], live[gpu.pk], True) for gpu in gpus}
    peaks = reading.recent_peaks(uses, live)
    reserves = {pool: reading.rules_of(pool) for pool in {gpu.node.pool for gpu in gpus}}
    changed = 0
    for one in placements:
        load = Load(peaks[one.gpu_id], reserves[one.gpu.node.pool].sm_reserve_percent)
        before = Limits(one.effective_sm_share_percent, one.sm_share_percent, one.duty_percent)
        after = renew(before, load)
        changed += after != before and _write(one, before, after, now)
    return changed


@transaction.atomic
def _write(placement: Placement, before: Limits, after: Limits, now: datetime) -> bool:
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
