"""From samples to blocks, and from fine blocks to coarser ones. Pure (numpy).

A period is rolled up from what there is of it and says of how much that was: a gap stays a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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


def merged_raw(blocks: Sequence[Raw]) -> Raw:
    """Of one span: what a later block knows counts, what it does not know stays."""
    if len(blocks) == 1:
        return blocks[0]
    gpus = sorted({gpu for block in blocks for gpu in block.gpus})
    seconds = blocks[0].last.shape[2]
    last = np.full((len(NAMES), len(gpus), seconds), MISSING, np.int16)
    worst = np.full((WORST, len(gpus), seconds), MISSING, np.int16)
    for block in blocks:
        at = np.searchsorted(gpus, block.gpus)
        known = (block.last != MISSING).any(axis=0)
        last[:, at] = np.where(known, block.last, last[:, at])
        worst[:, at] = np.where(known, block.worst, worst[:, at])
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


def merged(blocks: Sequence[Rolled]) -> Rolled:
    """Of one span and tier. Where two know of a period, the one that knows more of it counts."""
    if len(blocks) == 1:
        return blocks[0]
    whole = _unknown(blocks, blocks[0].mean.shape[2])
    for block in blocks:
        at = np.searchsorted(whole.members, block.members)
        better = block.count > whole.count[at]
        for into, of in _planes(whole, block):
            into[..., at, :] = np.where(better, of, into[..., at, :])
    return whole


def spread(parts: Mapping[int, Rolled], start: int, periods: int, period_s: int) -> Rolled:
    """Blocks that begin at the moments named, side by side in a span of `periods`."""
    whole = _unknown(parts.values(), periods)
    for begins, block in parts.items():
        at, first = np.searchsorted(whole.members, block.members), (begins - start) // period_s
        here, skip = max(0, first), max(0, -first)
        until = min(periods, first + block.mean.shape[2])
        if until <= here:
            continue
        for into, of in _planes(whole, block):
            into[..., at, here:until] = of[..., skip : skip + until - here]
    return whole


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


def only(block: Rolled, members: Sequence[int]) -> Rolled:
    """Those of `members` that it has."""
    which = [at for at, member in enumerate(block.members) if member in members]
    here = tuple(block.members[at] for at in which)
    mean, low, high = block.mean[:, which], block.low[:, which], block.high[:, which]
    return Rolled(here, mean, low, high, block.count[which])
