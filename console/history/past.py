"""What is known of a span: blocks of a tier, and where it is not rolled up yet, finer ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from django.db.models import Min

from console.history import blocks, rolling
from console.history.blocks import Raw, Rolled
from console.history.models import Block, Kind, RolledUp
from console.history.tiers import FINER, RAW, TEN, Tier


def read(
    kind: Kind, owner: int, tier: Tier, start: int, end: int, members: Sequence[int] | None = None
) -> Rolled | None:
    """Points of `tier` from `start` to before `end`, both multiples of its period; None: nothing.

    Only the GPUs `members` of a node, if given.
    """
    parts = _blocks(kind, owner, tier, start, end, members)
    finest = RAW if kind is Kind.NODE else TEN
    if tier.period_s > finest.period_s:
        begins = _begins(kind, owner, tier, max(start, until(tier)))
        if begins is not None and begins < end:
            rest = read(kind, owner, FINER[tier], begins, end, members)
            if rest is not None:
                parts[begins] = rolling.together(rest, tier.period_s // FINER[tier].period_s)
    if not parts:
        return None
    return rolling.spread(parts, start, (end - start) // tier.period_s, tier.period_s)


def _begins(kind: Kind, owner: int, tier: Tier, start: int) -> int | None:
    """From where on finer tiers know anything, for a range may be far longer than what there is."""
    finer = Block.objects.filter(kind=kind, owner=owner, tier_s__lt=tier.period_s)
    oldest = finer.filter(start__gt=start - tier.block_s).aggregate(oldest=Min("start"))["oldest"]
    return None if oldest is None else max(start, oldest // tier.period_s * tier.period_s)


def _blocks(
    kind: Kind, owner: int, tier: Tier, start: int, end: int, members: Sequence[int] | None
) -> dict[int, Rolled]:
    found = Block.objects.filter(
        kind=kind, owner=owner, tier_s=tier.period_s, start__gte=tier.start(start), start__lt=end
    )
    rows = found.order_by("start", "epoch").values_list("start", "data")
    return {
        begins: _one([bytes(data) for _, data in same], members)
        for begins, same in groupby(rows, key=lambda row: int(row[0]))
    }


def _one(data: Sequence[bytes], members: Sequence[int] | None) -> Rolled:
    found = [blocks.unpack(one) for one in data]
    raw = [block for block in found if isinstance(block, Raw)]
    rolled = [block for block in found if isinstance(block, Rolled)]
    if raw:
        rolled.append(rolling.as_rolled(rolling.merged_raw(raw)))
    whole = rolling.merged(rolled)
    return whole if members is None else rolling.only(whole, members)


def until(tier: Tier) -> int:
    """Before this, all there is of the tier is in blocks of its own."""
    row = RolledUp.objects.filter(tier_s=tier.period_s).values_list("start", flat=True).first()
    return row or 0
