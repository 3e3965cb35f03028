"""Look at the live grid, keep what ended, and foretell the whole fleet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import redis
from django.conf import settings
from numpy.typing import NDArray

from console.errors import Unavailable
from console.forecasts import gathering, history, outlook, service_history
from console.forecasts.members import members
from console.forecasts.packing import MISSING, Bytes, unpacked
from console.forecasts.series import (
    AHEAD,
    BIN_S,
    BINS,
    HORIZONS,
    HOUR_S,
    HOURS,
    Forecast,
    Ints,
    Past,
    hours_of_week,
)
from console.forecasts.series import Floats as Series
from console.inventory.models import Pool
from console.telemetry import layout, live_store
from console.telemetry.latest import STALE_S, Facts, Floats, Grid, Rows
from console.workloads.models import OnlineInstance, OnlineService

log = logging.getLogger(__name__)

# GPUs that are foretold at once: this many need some 80 MB for a moment.
PART: Final = 2_000

Predict = Callable[[Past], Forecast]


@dataclass(frozen=True)
class Seen:
    """What was kept of all GPUs up to the end of bin `number`, a column for each id below the
    highest: fine `bins` since the first that holds anything, and `hours`."""

    number: int
    bins: Bytes
    hours: Bytes


def look(now: datetime, predict: Predict) -> int:
    """How many GPUs were foretold: none, unless a bin has ended or forecasts were lost.

    Without live data nothing is kept and nothing foretold.
    """
    facts = layout.load().facts
    try:
        percent = _online(facts, now.timestamp())
        ended = gathering.add(gathering.bin_number(now.timestamp()), facts.ids, percent)
        if ended is not None:
            history.keep(ended.number, ended.percent)
        elif outlook.is_there():
            return 0
        seen = read(facts, gathering.bin_number(now.timestamp()) - 1)
        outlook.put(gathering.ended_at(seen.number), facts.ids, forecast(facts, seen, predict))
    except (Unavailable, redis.RedisError) as error:
        log.warning("Nothing is foretold, Redis does not answer: %s", error)
        return 0
    if ended is not None:
        foretell_services(seen, predict)
    return len(facts.ids)


def _online(facts: Facts, now: float) -> Floats:
    """[GPUs] percent, NaN where there is no live value. Raises Unavailable."""
    grid = Grid(facts)
    live_store.fill(grid)
    return np.where(now - grid.at <= STALE_S, grid.column("sm_online_percent"), np.nan)


def read(facts: Facts, number: int) -> Seen:
    """Two queries."""
    width = int(facts.ids.max(initial=0)) + 1
    bins = _since_the_first(history.read(BIN_S, number + 1 - BINS, number + 1, width))
    hour = (number + 1) // history.PER_HOUR
    return Seen(number, bins, history.read(HOUR_S, hour - HOURS, hour, width))


def _since_the_first(bins: Bytes) -> Bytes:
    """Without the bins before anything was seen; one at least."""
    seen = (bins != MISSING).any(axis=1)
    return bins[int(seen.argmax()) :] if seen.any() else bins[-1:]


def forecast(facts: Facts, seen: Seen, predict: Predict) -> Forecast:
    """Of every GPU: one query, `PART` GPUs at a time."""
    told = _blank(len(facts.ids))
    for zone, rows in _parts(facts):
        ids = facts.ids[rows]
        bins, hours = unpacked(seen.bins[:, ids].T), unpacked(seen.hours[:, ids].T)
        _put(told, rows, predict(_past(seen.number, bins, hours, zone, facts.service[rows])))
    return told


def foretell_services(seen: Seen, predict: Predict) -> None:
    """The same of every service, from the mean of its GPUs, and keep both: four queries."""
    pairs = OnlineInstance.objects.filter(gpu__retired_at=None).values_list("service", "gpu")
    found = members(pairs, seen.bins.shape[1])
    bins, hours = found.means(seen.bins), found.means(seen.hours)
    told, zones = _blank(len(bins)), _zones_of_services()
    for zone in set(zones.values()):
        rows = np.flatnonzero([zones.get(pk) == zone for pk in found.services.tolist()])
        alone = np.full(len(rows), -1, np.int32)
        _put(told, rows, predict(_past(seen.number, bins[rows], hours[rows], zone, alone)))
    service_history.keep(seen.number, found, bins[:, -1], told, np.isfinite(hours).sum(axis=1))


def _zones_of_services() -> dict[int, tzinfo]:
    rows = OnlineService.objects.values_list("pk", "pool__time_zone")
    return {pk: _zone(name) for pk, name in rows}


def _blank(count: int) -> Forecast:
    unknown = np.full((count, len(HORIZONS)), np.nan, np.float32)
    return Forecast(unknown, unknown.copy(), np.zeros(count, np.uint8))


def _put(told: Forecast, rows: Rows, part: Forecast) -> None:
    told.middle[rows], told.high[rows], told.kind[rows] = part.middle, part.high, part.kind


def _parts(facts: Facts) -> Iterator[tuple[tzinfo, Rows]]:
    """Rows that are foretold together: of one time zone, services side by side."""
    zones = {pk: _zone(name) for pk, name in Pool.objects.values_list("pk", "time_zone")}
    for zone in set(zones.values()):
        pools = [pk for pk, one in zones.items() if one == zone]
        rows = np.flatnonzero(np.isin(facts.pool, pools))
        rows = rows[np.argsort(facts.service[rows], kind="stable")]
        for start in range(0, len(rows), PART):
            yield zone, rows[start : start + PART]


def _zone(name: str) -> tzinfo:
    """A world that runs faster than the clock has days of its own, in no zone."""
    if settings.WORLD_CLOCK != 1:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def _past(
    number: int, bins: Series, hours: Series, zone: tzinfo, services: NDArray[np.int32]
) -> Past:
    """`bins` and `hours` [n, …] end with bin `number`, and with the last whole hour before."""
    last, hour = number + 1, (number + 1) // history.PER_HOUR
    return Past(
        bins=bins,
        hours=hours,
        bin_hour=hours_of_week(_middles(last - bins.shape[1], last + AHEAD, BIN_S), zone),
        hour_hour=hours_of_week(_middles(hour - HOURS, hour, HOUR_S), zone),
        peers=_numbered(services),
    )


def _middles(first: int, end: int, period_s: int) -> NDArray[np.float64]:
    """World time of the middles of the bins from `first` to before `end`."""
    return (np.arange(first, end, dtype=np.float64) + 0.5) * period_s


def _numbered(services: NDArray[np.int32]) -> Ints:
    """Small numbers for the services of a part; -1 stays: no service."""
    _, number = np.unique(services, return_inverse=True)
    return np.where(services < 0, -1, number).astype(np.int64)
