"""What is known of a span: blocks of a tier, and where it is not rolled up yet, finer ones.

Each question to the database is one statement, so it sees an hour in small blocks or in a large
one, never in both or neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from django.db.models import Min, Q, QuerySet

from console.history import blocks, rolling
from console.history.blocks import Raw, Rolled
from console.history.models import Block, Kind, RolledUp
from console.history.tiers import FINER, RAW, TEN, Tier, fresh_start

# Of a node each block has all that its writer knew; to a pool each adds samples of other GPUs or
# other seconds.
_JOIN: Final = {
    Kind.NODE: rolling.better,
    Kind.POOL: rolling.added,
    Kind.SERVICE: rolling.added,
}


def read(
    kind: Kind, owner: int, tier: Tier, start: int, end: int, members: Collection[int] | None = None
) -> Rolled | None:
    """Points of `tier` from `start` to before `end`, both multiples of its period; None: nothing.

    Only the GPUs `members` of a node, if given.
    """
    rolled_until = until(tier)  # first: what is rolled up meanwhile is read twice, not never
    if kind is Kind.NODE and tier is RAW:
        seconds = raw(owner, start, end, members)
        return None if seconds is None else rolling.as_rolled(seconds)
    count = (end - start) // tier.period_s
    parts = [
        (begins, block)
        for begins, block in _blocks(kind, owner, tier, start, end, members)
        if isinstance(block, Rolled)
    ]
    known = rolling.joined(parts, start, count, tier.period_s, _JOIN[kind]) if parts else None
    rest = _rest(kind, owner, tier, max(start, rolled_until), end, members)
    if rest is None:
        return known
    both = ([(start, known)] if known else []) + [rest]
    return rolling.joined(both, start, count, tier.period_s, rolling.better)


def raw(owner: int, start: int, end: int, members: Collection[int] | None = None) -> Raw | None:
    """The seconds of a node; None: nothing."""
    parts = [
        (begins, block)
        for begins, block in _blocks(Kind.NODE, owner, RAW, start, end, members)
        if isinstance(block, Raw)
    ]
    return rolling.joined_raw(parts, start, end - start) if parts else None


def _rest(
    kind: Kind, owner: int, tier: Tier, start: int, end: int, members: Collection[int] | None
) -> tuple[int, Rolled] | None:
    """From finer tiers, and from where on."""
    finest = RAW if kind is Kind.NODE else TEN
    if tier.period_s <= finest.period_s:
        return None
    begins = _begins(kind, owner, tier, start)
    if begins is None or begins >= end:
        return None
    found = read(kind, owner, FINER[tier], begins, end, members)
    if found is None:
        return None
    return begins, rolling.together(found, tier.period_s // FINER[tier].period_s)


def _begins(kind: Kind, owner: int, tier: Tier, start: int) -> int | None:
    """From where on finer tiers know anything, for a range may be far longer than what there is."""
    finer = Block.objects.filter(kind=kind, owner=owner, tier_s__lt=tier.period_s)
    oldest = finer.filter(start__gt=start - tier.block_s).aggregate(oldest=Min("start"))["oldest"]
    return None if oldest is None else max(start, oldest // tier.period_s * tier.period_s)


def _blocks(
    kind: Kind, owner: int, tier: Tier, start: int, end: int, members: Collection[int] | None
) -> Iterator[tuple[int, Raw | Rolled]]:
    """With the moment at which each begins, in the order of their writing."""
    whole = Q(epoch=0, start__gte=tier.start(start))
    found = Block.objects.filter(
        whole | Q(epoch__gt=0, start__gte=fresh_start(start)),
        kind=kind, owner=owner, tier_s=tier.period_s, start__lt=end,
    )  # fmt: skip
    for begins, data in found.order_by("start", "epoch").values_list("start", "data"):
        yield int(begins), blocks.unpack(bytes(data), members)


def oldest(kind: Kind, owner: int) -> int | None:
    """When the first block of an owner begins; None: there is none."""
    found = Block.objects.filter(kind=kind, owner=owner).aggregate(oldest=Min("start"))["oldest"]
    return None if found is None else int(found)


def fresh(kind: Kind, owners: Collection[int], start: int, end: int) -> QuerySet[Block]:
    """Blocks of a minute, of what these owners have first."""
    tier = RAW if kind is Kind.NODE else TEN
    return Block.objects.filter(
        kind=kind, owner__in=owners, tier_s=tier.period_s, epoch__gt=0,
        start__gte=start, start__lt=end,
    )  # fmt: skip


def until(tier: Tier) -> int:
    """Before this, all there is of the tier is in blocks of its own."""
    row = RolledUp.objects.filter(tier_s=tier.period_s).values_list("start", flat=True).first()
    return row or 0
