"""Facts as columns: numpy does the rest for tens of thousands of GPUs and jobs at once. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from console.scheduling.snapshot import STEP_PERCENT

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

NAN: Final = float("nan")
# Times are rounded to steps of 5 % as well.
_LOG_STEP: Final = float(np.log1p(STEP_PERCENT / 100.0))
# How a missing value is coded; no step of a load is that high.
MISSING: Final = 31
_LONGEST: Final = 1_023
# Spreads the bits of what it multiplies; 2⁶⁴ over the golden ratio.
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def numbers(facts: Sequence[Any], name: str) -> Floats:
    """The attribute `name` of each, NaN where it is None."""
    return np.array(list(map(attrgetter(name), facts)), np.float64)


def codes(values: Iterable[Hashable], seen: dict[Any, int]) -> list[int]:
    """A number for each value, the same for equal ones; those not in `seen` are added to it."""
    return [seen.setdefault(value, len(seen)) for value in values]


def codes_of(facts: Sequence[Any], *names: str) -> tuple[Ints, list[Any]]:
    """The attribute `name` of each as a number, of several what they are together; and what the
    numbers mean."""
    seen: dict[Any, int] = {}
    column = np.array(codes(map(attrgetter(*names), facts), seen), np.int64)
    return column, list(seen)


def steps(percent: Floats) -> Ints:
    """How many steps of 5 %, rounded up, at most a whole card; `MISSING` for NaN."""
    up = np.ceil(np.clip(percent, 0.0, 100.0) / STEP_PERCENT)
    return np.where(np.isnan(percent), MISSING, up).astype(np.int64)


def time_steps(seconds: Floats) -> Ints:
    """Steps of 5 % above a microsecond, from 1 on; 0 for NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        count = np.rint(np.log(np.maximum(seconds, 1e-6) / 1e-6) / _LOG_STEP) + 1.0
    return np.where(np.isnan(seconds), 0, np.clip(count, 1, _LONGEST)).astype(np.int64)


def share_of_steps(count: Ints) -> Floats:
    """A load as a fraction of the card, NaN for `MISSING`."""
    return np.where(count == MISSING, NAN, count * (STEP_PERCENT / 100.0))


def time_of_steps(count: Ints) -> Floats:
    return np.where(count == 0, NAN, 1e-6 * np.exp((count - 1) * _LOG_STEP))


def shared(facts: Sequence[Any], name: str) -> tuple[Ints, list[Any]]:
    """The objects `name` of each, of which few differ: which one each has, and those."""
    objects = list(map(attrgetter(name), facts))
    first, which = groups(np.fromiter(map(id, objects), np.int64, len(objects)))
    return which, [objects[index] for index in first.tolist()]


def groups(key: Ints | Floats) -> tuple[Ints, Ints]:
    """Equal keys together: the first index of each group, and the group of each index.

    `key` is [n] or [n, columns].
    """
    one = key if key.ndim == 1 else _mixed(key)
    _, first, group = np.unique(one, return_index=True, return_inverse=True)
    if one is key or (key[first[group]] == key).all():
        return first, group
    return _sorted(key)


def places(among: Ints, wanted: Ints, order: Ints | None = None) -> Ints:
    """Where each of `wanted` is among numbers that differ, -1: nowhere. `order` sorts these; they
    rise without it."""
    if not len(among):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(among, wanted, sorter=order), len(among) - 1)
    at = at if order is None else order[at]
    return np.where(among[at] == wanted, at, -1)


def compact(number: Ints, most: int) -> tuple[Ints, Ints]:
    """As `groups`, of whole numbers from 0 to below `most`, in their order."""
    first = np.full(most, -1)
    first[number[::-1]] = np.arange(len(number))[::-1]
    used = np.flatnonzero(first >= 0)
    place = np.empty(most, np.int64)
    place[used] = np.arange(len(used))
    return first[used], place[number]


def _mixed(key: Ints | Floats) -> NDArray[np.uint64]:
    """The columns as one number, which is the same for two rows that differ once in 2⁶⁴ times."""
    bits = (key + 0).view(np.uint64)
    mixed = np.zeros(len(key), np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * _ODD
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _sorted(key: Ints | Floats) -> tuple[Ints, Ints]:
    order = np.lexsort(key.T[::-1])
    ordered = key[order]
    new = np.ones(len(key), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.empty(len(key), np.int64)
    group[order] = np.cumsum(new) - 1
    return order[new], group


def model_of(model: str, simulated: bool) -> str:
    """As predictors know it: what was learnt on a simulated card never serves a real one."""
    return f"simulated:{model}" if simulated else model
