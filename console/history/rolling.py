"""From samples to blocks, and from fine blocks to coarser ones. Pure (numpy).

A period is rolled up from what there is of it and says of how much that was: a gap stays a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from console.history.blocks import Counts, Raw, Rolled
from console.history.kept import (
    AT,
    HIGHEST,
    MISSING,
    NAMES,
    SCALES,
    WORST,
    Codes,
    decode_one,
    encode_one,
)
from console.history.rows import Rows

_HIGHEST: Final = [AT[name] for name in NAMES if name in HIGHEST]


def raw_block(rows: Rows, start: int, seconds: int) -> Raw:
    """All of `rows` lie within; of two of one GPU and second the later one counts."""
    gpus, member = np.unique(rows.gpu, return_inverse=True)
    last = np.full((len(NAMES), len(gpus), seconds), MISSING, np.int16)
    worst = np.full((WORST, len(gpus), seconds), MISSING, np.int16)
    at = rows.second - start
    last[:, member, at], worst[:, member, at] = rows.last.T, rows.worst.T
    return Raw(tuple(gpus.tolist()), last, worst)


def joined_raw(parts: Sequence[tuple[int, Raw]], start: int, seconds: int) -> Raw:
    """Blocks that begin at the moments named, as one from `start` on: what a later one knows
    counts, what it does not know stays."""
    gpus = sorted({gpu for _, block in parts for gpu in block.gpus})
    last = np.full((len(NAMES), len(gpus), seconds), MISSING, np.int16)
    worst = np.full((WORST, len(gpus), seconds), MISSING, np.int16)
    for begins, block in parts:
        here, skip = max(0, begins - start), max(0, start - begins)
        until = min(seconds, begins - start + block.last.shape[2])
        if until <= here or not block.gpus:
            continue
        at, of = np.searchsorted(gpus, block.gpus), slice(skip, skip + until - here)
        known = (block.last[:, :, of] != MISSING).any(axis=0)
        for into, one in ((last, block.last), (worst, block.worst)):
            into[:, at, here:until] = np.where(known, one[:, :, of], into[:, at, here:until])
    return Raw(tuple(gpus), last, worst)


def as_rolled(block: Raw) -> Rolled:
    """Each second as a period of its own."""
    low, high = block.last.copy(), block.last.copy()
    known = block.worst != MISSING
    low[:WORST] = np.where(known, np.minimum(block.worst, block.last[:WORST]), low[:WORST])
    high[:WORST] = np.where(known, np.maximum(block.worst, block.last[:WORST]), high[:WORST])
    count = (block.last != MISSING).any(axis=0).astype(np.uint32)
    lone = known & (block.last[:WORST] == MISSING)  # the worst of a second whose last is missing
    low[:WORST], high[:WORST] = (np.where(lone, MISSING, one[:WORST]) for one in (low, high))
    return Rolled(block.gpus, block.last, low, high, count)


def together(block: Rolled, periods: int) -> Rolled:
    """Each `periods` points as one; their number must be a multiple of it."""
    if periods == 1:
        return block
    shape = (len(NAMES), len(block.members), -1, periods)
    mean, low, high = (one.reshape(shape) for one in (block.mean, block.low, block.high))
    count = block.count.reshape(shape[1:])
    return Rolled(
        block.members,
        _means(mean, count, high),
        _least(low, axis=3),
        _most(high, axis=3),
        count.sum(axis=2, dtype=np.uint32),
    )


def group(block: Rolled, member: int, which: npt.NDArray[np.intp]) -> Rolled:
    """Those members as one: a pool, or a service."""
    mean, low, high = (one[:, which] for one in (block.mean, block.low, block.high))
    count = block.count[which]
    # Members last, where `_means` takes means.
    mean_of = _means(np.moveaxis(mean, 1, 2), count.T, np.moveaxis(high, 1, 2))
    return Rolled(
        (member,),
        mean_of[:, np.newaxis],
        _least(low, axis=1)[:, np.newaxis],
        _most(high, axis=1)[:, np.newaxis],
        count.sum(axis=0, dtype=np.uint32)[np.newaxis],
    )


def _means(mean: Codes, count: Counts, high: Codes) -> Codes:
    """Over the last axis, weighted by `count`, whose shape is that of one name."""
    found = np.empty(mean.shape[:-1], np.int16)
    for at, name in enumerate(NAMES):
        known = mean[at] != MISSING
        weight = np.where(known, count, 0).astype(np.float64)
        total = weight.sum(axis=-1)
        values = decode_one(mean[at], SCALES[name])
        sums = (np.where(known, values, 0.0) * weight).sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[at] = encode_one(sums / total, SCALES[name])
    found[_HIGHEST] = _most(high[_HIGHEST], axis=-1)
    return found


def _least(codes: Codes, axis: int) -> Codes:
    known = codes != MISSING
    least = np.where(known, codes, np.int16(32_767)).min(axis=axis)
    return np.where(known.any(axis=axis), least, np.int16(MISSING))


def _most(codes: Codes, axis: int) -> Codes:
    """MISSING is the least code of all."""
    most: Codes = codes.max(axis=axis)
    return most


Join: TypeAlias = Callable[[Rolled, Rolled], Rolled]


def joined(
    parts: Sequence[tuple[int, Rolled]], start: int, periods: int, period_s: int, join: Join
) -> Rolled:
    """Blocks of one tier that begin at the moments named, in a span of `periods`. Of what two of
    them know something `join` makes one."""
    whole = _unknown([block for _, block in parts], periods)
    for begins, block in parts:
        first = (begins - start) // period_s
        here, until = max(0, first), min(periods, first + block.count.shape[1])
        if until <= here or not block.members:
            continue
        at = np.searchsorted(whole.members, block.members)
        new = _cut(block, slice(None), slice(here - first, until - first))
        if whole.count[at, here:until].any():
            new = join(_cut(whole, at, slice(here, until)), new)
        for into, of in _planes(whole, new):
            into[..., at, here:until] = of
    return whole


def _cut(block: Rolled, which: Any, span: slice) -> Rolled:
    planes = (block.mean, block.low, block.high)
    mean, low, high = (one[:, which, span] for one in planes)
    return Rolled(block.members, mean, low, high, block.count[which, span])


def better(one: Rolled, other: Rolled) -> Rolled:
    """Of two that know of the same samples the one that knows of more of them counts."""
    more = other.count > one.count
    return Rolled(
        one.members,
        np.where(more, other.mean, one.mean),
        np.where(more, other.low, one.low),
        np.where(more, other.high, one.high),
        np.where(more, other.count, one.count),
    )


def added(one: Rolled, other: Rolled) -> Rolled:
    """Of two that know of different samples both count."""
    mean, low, high = (
        np.stack(pair, axis=-1)
        for pair in ((one.mean, other.mean), (one.low, other.low), (one.high, other.high))
    )
    count = np.stack((one.count, other.count), axis=-1)
    return Rolled(
        one.members,
        _means(mean, count, high),
        _least(low, axis=-1),
        _most(high, axis=-1),
        count.sum(axis=-1, dtype=np.uint32),
    )


def _unknown(blocks: Iterable[Rolled], periods: int) -> Rolled:
    """Of all their members, and nothing known yet."""
    members = sorted({member for block in blocks for member in block.members})
    shape = (len(NAMES), len(members), periods)
    mean, low, high = (np.full(shape, MISSING, np.int16) for _ in range(3))
    return Rolled(tuple(members), mean, low, high, np.zeros(shape[1:], np.uint32))


def _planes(into: Rolled, of: Rolled) -> Iterable[tuple[Any, Any]]:
    """What belongs together of two blocks; what counts comes last."""
    return (
        (into.mean, of.mean),
        (into.low, of.low),
        (into.high, of.high),
        (into.count, of.count),
    )


def beside(blocks: Sequence[Rolled]) -> Rolled:
    """Blocks of one span and of different members, as one."""
    return Rolled(
        tuple(member for block in blocks for member in block.members),
        np.concatenate([block.mean for block in blocks], axis=1),
        np.concatenate([block.low for block in blocks], axis=1),
        np.concatenate([block.high for block in blocks], axis=1),
        np.concatenate([block.count for block in blocks]),
    )
