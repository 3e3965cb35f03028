"""Blocks of coarser tiers, made of those of finer ones when their span is over; and what is too old
goes. A worker does it for a few seconds at each call: where it stopped is a row.

When an hour is rolled up its minutes become one block, in the same transaction. So what comes later
is in minutes again: their hour is rolled up once more, with its day, and then has none left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Final

from django.db.models import Min

from console.history import blocks, past, rolling, writing
from console.history.blocks import Rolled
from console.history.models import Block, Kind, RolledUp
from console.history.tiers import FINER, HOUR_S, ONE, QUARTER, RAW, TEN, TIERS, Tier
from console.inventory.models import Node, Pool
from console.workloads.models import OnlineService

# What comes late is there by then; what comes later still is `_mend`ed.
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
    while time.monotonic() < until and _mend():
        pass


def _step(tier: Tier, now: float, is_behind: Callable[[float], bool]) -> bool:
    """A few nodes of the oldest span that is over; whether there was anything to do."""
    with writing.turn():
        at = _at(tier)
        end = 0 if at is None else at.start + tier.block_s
        if at is None or now < end + SETTLED_S or not _is_complete(tier, at.start):
            return False
        if tier is TEN and is_behind(end):
            return False
        nodes = Node.objects.filter(pk__gt=at.after_node).order_by("pk")
        some = list(nodes.values_list("pk", flat=True)[:NODES])
        _roll(tier, Kind.NODE, some, at.start)
        if len(some) == NODES:
            at.after_node = some[-1]
        else:
            for kind, of in ((Kind.POOL, Pool), (Kind.SERVICE, OnlineService)):
                _roll(tier, kind, list(of.objects.values_list("pk", flat=True)), at.start)
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


def _mend() -> bool:
    """A few owners of an hour that got more after it was rolled up; whether there were any."""
    with writing.turn():
        late = Block.objects.filter(epoch__gt=0, start__lt=past.until(TEN)).order_by("start")
        first = late.values_list("kind", "start").first()
        if first is None:
            return False
        kind, hour = Kind(first[0]), TEN.start(first[1])
        same = late.filter(kind=kind, start__lt=hour + TEN.block_s)
        some = sorted(set(same.values_list("owner", flat=True)))[:NODES]
        for tier in (TEN, ONE, QUARTER):
            if tier.start(hour) < past.until(tier):
                _roll(tier, kind, some, tier.start(hour))
    return True


def _roll(tier: Tier, kind: Kind, owners: Collection[int], start: int) -> None:
    """Make what these have of the tier from what they have of the finer one."""
    _put(_made(tier, kind, owners, start))
    if tier is TEN:
        past.fresh(kind, owners, start, start + tier.block_s).delete()


def _made(tier: Tier, kind: Kind, owners: Collection[int], start: int) -> Iterator[Block]:
    end = start + tier.block_s
    for owner in owners:
        if tier is not TEN:
            found = past.read(kind, owner, FINER[tier], start, end)
            yield from _rolled(tier, kind, owner, start, found, FINER[tier])
        elif kind is Kind.NODE:
            yield from _hour_of_node(owner, start)
        else:
            found = past.read(kind, owner, TEN, start, end)
            yield from _rolled(tier, kind, owner, start, found, TEN)


def _hour_of_node(node: int, start: int) -> Iterator[Block]:
    """Its seconds as one block, and rolled up."""
    raw = past.raw(node, start, start + HOUR_S)
    if raw is not None:
        yield _block(RAW, Kind.NODE, node, start, blocks.pack_hour(raw))
        yield from _rolled(TEN, Kind.NODE, node, start, rolling.as_rolled(raw), RAW)


def _rolled(
    tier: Tier, kind: Kind, owner: int, start: int, found: Rolled | None, finer: Tier
) -> Iterator[Block]:
    if found is not None:
        points = rolling.together(found, tier.period_s // finer.period_s)
        yield _block(tier, kind, owner, start, blocks.pack_rolled(points))


def _block(tier: Tier, kind: Kind, owner: int, start: int, data: bytes) -> Block:
    return Block(kind=kind, owner=owner, tier_s=tier.period_s, start=start, epoch=0, data=data)


def _put(made: Iterator[Block]) -> None:
    """Over what was there: a span that is rolled up again knows more."""
    Block.objects.bulk_create(
        made,
        batch_size=200,
        update_conflicts=True,
        unique_fields=["kind", "owner", "tier_s", "start", "epoch"],
        update_fields=["data"],
    )


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
