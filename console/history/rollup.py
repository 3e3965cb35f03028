"""Blocks of coarser tiers, made of those of finer ones when their span is over; and what is too old
goes. Called by one worker at a time, for a few seconds at each call: where it stopped is a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Min, QuerySet

from console.history import blocks, past, rolling
from console.history.models import Block, Kind, RolledUp
from console.history.tiers import FINER, HOUR_S, ONE, QUARTER, TEN, TIERS, Tier
from console.inventory.models import Node, Pool
from console.workloads.models import OnlineService

# What comes late is there by then; what comes later still is written beside it (`services`).
SETTLED_S: Final = 3 * 60
NODES: Final = 25
LONGEST_S: Final = 5.0
# Oldest blocks go an hour of them at a time.
_FORGET_S: Final = HOUR_S


def roll(now: datetime, is_behind: Callable[[float], bool]) -> None:
    """As much as there is to do, for `LONGEST_S` at most. `is_behind` tells whether samples of
    before a time are still to be written: then that time is not rolled up yet."""
    until = time.monotonic() + LONGEST_S
    for tier in (TEN, ONE, QUARTER):
        while time.monotonic() < until and _step(tier, now.timestamp(), is_behind):
            pass


def _step(tier: Tier, now: float, is_behind: Callable[[float], bool]) -> bool:
    """A few nodes of the oldest span that is over; whether there was anything to do."""
    at = _at(tier)
    if at is None or now < at.start + tier.block_s + SETTLED_S or not _is_complete(tier, at.start):
        return False
    if tier is TEN and is_behind(at.start + tier.block_s):
        return False
    nodes = Node.objects.filter(pk__gt=at.after_node).order_by("pk").values_list("pk", flat=True)
    some = list(nodes[:NODES])
    with transaction.atomic():
        _roll_nodes(tier, at.start, some)
        if len(some) == NODES:
            at.after_node = some[-1]
        else:
            _roll_groups(tier, at.start)
            at.start, at.after_node = at.start + tier.block_s, 0
        at.save()
    return True


def _at(tier: Tier) -> RolledUp | None:
    """None as long as there is nothing to roll up."""
    known = RolledUp.objects.filter(tier_s=tier.period_s).first()
    if known is not None:
        return known
    finer = Block.objects.filter(tier_s=FINER[tier].period_s, kind=Kind.NODE)
    oldest = finer.aggregate(oldest=Min("start"))["oldest"]
    if oldest is None:
        return None
    return RolledUp.objects.create(tier_s=tier.period_s, start=tier.start(oldest))


def _is_complete(tier: Tier, start: int) -> bool:
    """Whether the finer tier is rolled up to the end of the span itself."""
    finer = FINER[tier]
    if finer not in FINER:
        return True
    known = RolledUp.objects.filter(tier_s=finer.period_s, start__gte=start + tier.block_s)
    return known.exists()


def _roll_nodes(tier: Tier, start: int, nodes: Sequence[int]) -> None:
    _put(_rolled(Kind.NODE, nodes, tier, start))


def _roll_groups(tier: Tier, start: int) -> None:
    pools = list(Pool.objects.values_list("pk", flat=True))
    services = list(OnlineService.objects.values_list("pk", flat=True))
    _put(_rolled(Kind.POOL, pools, tier, start))
    _put(_rolled(Kind.SERVICE, services, tier, start))


def _rolled(kind: Kind, owners: Sequence[int], tier: Tier, start: int) -> Iterator[Block]:
    for owner in owners:
        end = start + tier.block_s
        if kind is not Kind.NODE and tier is TEN:  # its minutes are of this very tier
            found = past.read(kind, owner, tier, start, end)
            _minutes(kind, owner, start).delete()
        else:
            finer = past.read(kind, owner, FINER[tier], start, end)
            factor = tier.period_s // FINER[tier].period_s
            found = None if finer is None else rolling.together(finer, factor)
        if found is not None:
            yield Block(
                kind=kind,
                owner=owner,
                tier_s=tier.period_s,
                start=start,
                epoch=0,
                data=blocks.pack_rolled(found),
            )


def _minutes(kind: Kind, owner: int, start: int) -> QuerySet[Block]:
    within = Block.objects.filter(kind=kind, owner=owner, tier_s=TEN.period_s)
    return within.filter(start__gte=start, start__lt=start + TEN.block_s, epoch__gt=0)


def _put(made: Iterator[Block]) -> None:
    """Over what was there: a span that is rolled up again knows more."""
    Block.objects.bulk_create(
        made,
        batch_size=200,
        update_conflicts=True,
        unique_fields=["kind", "owner", "tier_s", "start", "epoch"],
        update_fields=["data"],
    )


def again(node: int, spans: set[int]) -> None:
    """Roll up once more what of these hours (their starts) is rolled up already."""
    for hour in sorted(spans):
        for tier in (TEN, ONE):
            if hour < past.until(tier):
                _roll_nodes(tier, hour, [node])
    for day in sorted({QUARTER.start(hour) for hour in spans}):
        if day < past.until(QUARTER):
            _roll_nodes(QUARTER, day, [node])


def forget(now: datetime) -> int:
    """Delete what is older than its tier is kept; how many blocks went."""
    gone = 0
    for tier in TIERS:
        of_tier = Block.objects.filter(tier_s=tier.period_s)
        oldest = of_tier.aggregate(oldest=Min("start"))["oldest"]
        kept_from = now.timestamp() - tier.kept_s - tier.block_s
        if oldest is not None and oldest < kept_from:
            until = min(kept_from, oldest + _FORGET_S)
            gone += of_tier.filter(start__lt=until).delete()[0]
    return gone
