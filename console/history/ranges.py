"""The past of a GPU, a node, a pool or a service over any range, with as many points as a chart has
pixels. The last minute or so is not in here yet: it is written when it is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from console.history import past, rolling, tiers
from console.history.blocks import Rolled
from console.history.kept import AT, SCALES, Codes, decode_one
from console.history.models import Kind
from console.history.points import Band, Chart, Values
from console.history.tiers import RAW, TEN, Reading
from console.inventory.models import Gpu as GpuRow

POINTS: Final = 600


@dataclass(frozen=True)
class Gpu:
    id: int


@dataclass(frozen=True)
class Node:
    id: int


@dataclass(frozen=True)
class Pool:
    id: int


@dataclass(frozen=True)
class Service:
    id: int


Scope = Gpu | Node | Pool | Service


def chart(
    scope: Scope,
    names: Sequence[str],
    start: float,
    end: float,
    points: int = POINTS,
    now: float | None = None,
) -> Chart:
    """At most `points` points in all. `names` of `kept.NAMES`, values in wire units. Raises
    Gpu.DoesNotExist."""
    finest = RAW if isinstance(scope, Gpu | Node) else TEN
    how = tiers.reading(start, end, points, time.time() if now is None else now, finest)
    return _chart(scope, names, start, end, how)


def samples(gpu_id: int, start: float, end: float, now: float | None = None) -> Chart:
    """One GPU second by second, or as finely as there still is."""
    return chart(Gpu(gpu_id), tuple(SCALES), start, end, max(1, int(end - start) + 1), now)


def _chart(scope: Scope, names: Sequence[str], start: float, end: float, how: Reading) -> Chart:
    period_s = how.period_s
    first = int(start // period_s) * period_s
    last = max(first + period_s, -int(-end // period_s) * period_s)
    found = _read(scope, how, first, last)
    count = (last - first) // period_s
    times = [float(first + number * period_s) for number in range(count)]
    if found is None:
        gap: Values = [None] * count
        series = {name: Band(gap, gap, gap) for name in names}
        return Chart(how.tier.name, period_s, times, series, [0] * count, 0, [False] * count)
    drawn = _as_one(rolling.together(found, how.together))
    gpus = len(found.members) if isinstance(scope, Gpu | Node) else _most(found, how)
    series = {name: _band(drawn, AT[name], name) for name in names}
    samples, by_receipt = drawn.count[0].tolist(), (drawn.high[AT["by_receipt"], 0] > 0).tolist()
    return Chart(how.tier.name, period_s, times, series, samples, gpus, by_receipt)


def oldest(scope: Scope) -> int | None:
    """A moment before which nothing is kept, at most an hour too early; None: nothing is. Raises
    Gpu.DoesNotExist."""
    return past.oldest(*_kept_of(scope))


def _read(scope: Scope, how: Reading, first: int, last: int) -> Rolled | None:
    members = [scope.id] if isinstance(scope, Gpu) else None
    found = past.read(*_kept_of(scope), how.tier, first, last, members)
    return found if found is not None and found.members else None


def _kept_of(scope: Scope) -> tuple[Kind, int]:
    """Under whose name it is kept: a GPU's past is in that of its node."""
    match scope:
        case Gpu(id):
            return Kind.NODE, GpuRow.objects.values_list("node_id", flat=True).get(pk=id)
        case Node(id):
            return Kind.NODE, id
        case Pool(id):
            return Kind.POOL, id
        case Service(id):
            return Kind.SERVICE, id


def _as_one(found: Rolled) -> Rolled:
    if len(found.members) == 1:
        return found
    return rolling.group(found, 0, np.arange(len(found.members)))


def _most(found: Rolled, how: Reading) -> int:
    return int(-(-int(found.count.max(initial=0)) // how.tier.period_s))


def _band(drawn: Rolled, at: int, name: str) -> Band:
    return Band(*(_values(one[at, 0], name) for one in (drawn.mean, drawn.low, drawn.high)))


def _values(codes: Codes, name: str) -> Values:
    """With five digits, which is finer than what is kept."""
    values: npt.NDArray[np.float64] = decode_one(codes, SCALES[name])
    size = np.floor(np.log10(np.where(np.abs(values) > 0, np.abs(values), 1.0)))
    unit = 10.0 ** (4 - size)
    rounded = np.round(values * unit) / unit
    return [None if value != value else value for value in rounded.tolist()]
