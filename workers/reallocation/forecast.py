"""The online SM activity of the next hour, from what a GPU did before. Pure (numpy).

A GPU's past is a series y of means over bins of `BIN_S`, in percent, with gaps: what nobody
measured is NaN, carries no weight and is never taken for 0. The forecast made at bin t for h bins
later (`HORIZONS`) is

    f(t, h) = S(t + h) + slow + φ^(h + age) · (fast − slow)

of the rest x = y − S. `slow` and `fast` are exponentially weighted means of x up to t (`SLOW`,
`FAST`), `age` is the number of bins since the last measurement, φ = `PERSISTENCE`: what is unusual
now fades within hours. S is the season, and there are four kinds of it:

    level   S = 0
    peers   S = 0, fast = m · g: the GPU's own mean m (`OWN`), times what its peers, the GPUs of
            the same service, do now against their own means:
            g = (Σ y / Σ m + n₀/n) / (1 + n₀/n) over the n that report, n₀ = `SHRINK`
    daily   S = the mean of the same hour of the day, in the pool's time zone
    weekly  S = (k · mean of the same hour of the week + k₁ · daily) / (k + k₁), k = how often
            that hour was seen, k₁ = `USUAL`

S runs in straight lines between the middles of hours. Usual is the richest season that can be
judged; without one `peers` where a GPU has more than `MANY_PEERS`, else `level`. Another kind is
taken where it erred clearly less in the last day (mean absolute error over all horizons); a season
is judged there without that day's own hours, or it would know the answer. Daily needs a day of
hours, weekly two weeks. Below an hour of bins there is no model: middle and high are the mean and
the highest of what was seen in the last hour.

High is conformal (Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005), on
residuals that are normalised (Papadopoulos, Vovk, Gammerman: Regression conformal prediction with
nearest neighbours, 2011). The residual r of each forecast of the recent past is divided by the
error that the GPU was known for when that forecast was made,

    e(t, h) = (Σ w |r| + k₀ · e₀) / (Σ w + k₀),   w exponential, k₀ = `PRIOR`,

e₀ the same of all GPUs together. With q the 95 % quantile of r / e over all GPUs and the last
`WINDOW` bins (a day of them, where few GPUs are told of together), high = f + q · e. A quantile
that few bins speak for is drawn towards that of the next shorter horizon, when that is higher.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.forecasts.series import (
    BINS,
    DAILY_HOURS,
    HORIZONS,
    KINDS,
    QUANTILE,
    WEEKLY_HOURS,
    Floats,
    Forecast,
    Ints,
    Past,
)

# All constants are our choice, made on the public trace of make bench-forecast.
# Weights of the newest bin in the means of a GPU's load, and in that of its peers' ratio.
FAST: Final = 0.25
SLOW: Final = 0.02
OWN: Final = 0.1
TOGETHER: Final = 0.5
# So many peers that do nothing unusual are added to those that there are.
SHRINK: Final = 3.0
# What is left of a deviation after one bin: two thirds after an hour.
PERSISTENCE: Final = 0.97

# An hour of bins, without which there is no model; and the longest silence that a level outlives.
LEAST_BINS: Final = 12
SILENCE: Final = 12
DAY: Final = 24
# The weight of the daily season in the weekly one, in weeks.
USUAL: Final = 0.25
# Peers are heeded beyond this many; another kind is taken that errs less than this part.
MANY_PEERS: Final = 4
CLEARLY: Final = 0.95

# The known error of a GPU: the weight of its newest, the weight of everybody's in newest bins, how
# new that is in turn, and the least, in points.
ERROR: Final = 0.1
PRIOR: Final = 10.0
EVERYBODY: Final = 0.04
LEAST_ERROR: Final = 1.0
# The quantile of errors: over so many bins, or a day where they hold less than `MANY_SCORES`. It is
# believed from `LEAST_SCORES` on, and fully once they come from many more bins than `LEAST_TIMES`.
WINDOW: Final = 36
MANY_SCORES: Final = 1_000
LEAST_SCORES: Final = 40
LEAST_TIMES: Final = 12
# Until then: 95 % of normal errors lie within twice the mean absolute one, of real ones fewer.
FACTOR: Final = 2.5

_FIRST_MODEL: Final = KINDS.index("level")


def forecast(past: Past) -> Forecast:
    """Of every GPU for every horizon."""
    y = past.bins
    made = np.stack([_made(y, season, fast) for season, fast in _models(past)])
    kind = _choose(y, made, past.peers)
    model = np.maximum(kind - _FIRST_MODEL, 0)
    middle, high = band(y, np.clip(made[model, np.arange(len(y))], 0.0, 100.0))
    unknown = (kind < _FIRST_MODEL) | (np.isfinite(y).sum(axis=1) < LEAST_BINS)
    seen = np.isfinite(y[:, -SILENCE:]).any(axis=1)
    middle[unknown], high[unknown] = (one[unknown, None] for one in _seen(y[:, -SILENCE:]))
    kind = np.where(unknown, np.where(seen, KINDS.index("peak"), KINDS.index("none")), kind)
    return Forecast(middle, high, kind.astype(np.uint8))


def _seen(recent: Floats) -> tuple[Floats, Floats]:
    """[n]: mean and highest of what was measured; NaN where nothing was."""
    known = np.isfinite(recent)
    highest = np.where(known, recent, -np.inf).max(axis=1)
    return _mean_over(recent), np.where(known.any(axis=1), highest, np.nan).astype(np.float32)


# --- the models ---------------------------------------------------------------------------


def _models(past: Past) -> list[tuple[Floats, Floats]]:
    """Season [n, t + AHEAD] and `fast` mean of the rest [n, t] of each kind from `level` on."""
    none = np.zeros((len(past.bins), len(past.bin_hour)), np.float32)
    models = [(none, _mean(past.bins, FAST)), (none, _with_peers(past.bins, past.peers))]
    for season in _seasons(past):
        rest = past.bins - season[:, : past.bins.shape[1]]
        models.append((season, _mean(rest, FAST)))
    return models


def _made(y: Floats, season: Floats, fast: Floats) -> Floats:
    """[n, t, H]: the forecasts made at each bin; NaN after a long silence, without a season."""
    times = y.shape[1]
    slow = _mean(y - season[:, :times], SLOW)
    age = _age(y)
    unusual = np.where(age <= SILENCE, fast - slow, 0.0)
    is_level = (season == 0.0).all(axis=1, keepdims=True)
    base = np.where(is_level & (age > SILENCE), np.nan, slow)
    ahead = [season[:, h : times + h] + base + PERSISTENCE ** (h + age) * unusual for h in HORIZONS]
    return np.stack(ahead, axis=2).astype(np.float32)


def _mean(x: Floats, weight: float) -> Floats:
    """[n, t]: the exponentially weighted mean of what is known up to each bin; NaN before any."""
    total = np.zeros(len(x), np.float32)
    mass = np.zeros(len(x), np.float32)
    means = np.empty_like(x)
    for t in range(x.shape[1]):
        known = np.isfinite(x[:, t])
        total = total * (1 - weight) + np.where(known, x[:, t], 0.0)
        mass = mass * (1 - weight) + known
        means[:, t] = np.where(mass > 0, total / np.maximum(mass, 1e-9), np.nan)
    return means


def _age(y: Floats) -> Floats:
    """[n, t]: bins since the last that was measured."""
    times = np.arange(y.shape[1], dtype=np.float32)
    last = np.maximum.accumulate(np.where(np.isfinite(y), times, -np.inf), axis=1)
    return (times - last).astype(np.float32)


def _with_peers(y: Floats, peers: Ints) -> Floats:
    """[n, t]: the own mean of each GPU, raised or lowered as its peers are against theirs."""
    own = _mean(y, OWN)
    has = peers >= 0
    groups = np.where(has, peers, 0)
    count = int(groups.max(initial=0)) + 1
    now = np.zeros(count)
    usual = np.zeros(count)
    many = np.zeros(count)
    result = np.full_like(y, np.nan)
    result[:, 0] = own[:, 0]
    for t in range(1, y.shape[1]):
        told = np.isfinite(y[:, t]) & np.isfinite(own[:, t - 1]) & has
        which = groups[told]
        now = now * (1 - TOGETHER) + np.bincount(which, y[told, t], count)
        usual = usual * (1 - TOGETHER) + np.bincount(which, own[told, t - 1], count)
        many = many * (1 - TOGETHER) + TOGETHER * np.bincount(which, minlength=count)
        pull = SHRINK / np.maximum(many, 1e-3)
        ratio = (now / np.maximum(usual, 1e-3) + pull) / (1.0 + pull)
        result[:, t] = own[:, t] * np.where(has & (usual[groups] > 1e-3), ratio[groups], 1.0)
    return result


# --- seasons ------------------------------------------------------------------------------


def _seasons(past: Past) -> tuple[Floats, Floats]:
    """Daily and weekly, [n, t + AHEAD]: the bins that are past are judged without the last day's
    own hours, those ahead are told with them. NaN where the season is not known."""
    known = np.isfinite(past.hours).sum(axis=1)
    told = _season(past.hours, past.hour_hour, past.bin_hour)
    judged = _season(past.hours[:, :-DAY], past.hour_hour[:-DAY], past.bin_hour)
    times = past.bins.shape[1]
    for old, new, least in zip(judged, told, (DAILY_HOURS, WEEKLY_HOURS), strict=True):
        old[:, times:] = new[:, times:]
        old[known < least] = np.nan
    return judged


def _season(hours: Floats, hour_hour: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Daily and weekly at these hours of the week."""
    day, _ = _slots(hours, hour_hour, DAY)
    week, seen = _slots(hours, hour_hour, 7 * DAY)
    usual = np.tile(day, 7)
    week = np.where(seen > 0, (seen * week + USUAL * usual) / (seen + USUAL), usual)
    return _between(day, at), _between(week, at)


def _slots(hours: Floats, hour_hour: Floats, count: int) -> tuple[Floats, Floats]:
    """The mean of each slot, the hour of the day or week, and how many hours it is made of."""
    slot = hour_hour.astype(np.int64) % count
    mean = np.full((len(hours), count), np.nan, np.float32)
    seen = np.zeros((len(hours), count), np.float32)
    for number in range(count):
        column = hours[:, slot == number]
        known = np.isfinite(column)
        seen[:, number] = known.sum(axis=1)
        total = np.where(known, column, 0.0).sum(axis=1)
        np.divide(total, seen[:, number], out=mean[:, number], where=seen[:, number] > 0)
    return mean, seen


def _between(slots: Floats, at: Floats) -> Floats:
    """The season at each time: between the middles of two hours a straight line."""
    count = slots.shape[1]
    place = (at - 0.5) % count
    before = place.astype(np.int64) % count
    part = place - before
    left, right = slots[:, before], slots[:, (before + 1) % count]
    left = np.where(np.isfinite(left), left, right)
    right = np.where(np.isfinite(right), right, left)
    between: Floats = (left * (1 - part) + right * part).astype(np.float32)
    return between


# --- judging ------------------------------------------------------------------------------


def _choose(y: Floats, made: Floats, peers: Ints) -> Ints:
    """The kind of each GPU; 0 where nothing can be foretold.

    The richest season that could be judged, else peers or level, unless another erred clearly
    less.
    """
    usable = np.isfinite(made[:, :, -1].sum(axis=2))
    error = np.where(usable, np.stack([_error_of(y, forecasts) for forecasts in made]), np.nan)
    pairs = np.arange(len(y))
    usual = np.where(_many(peers), KINDS.index("peers"), KINDS.index("level")) - _FIRST_MODEL
    for season in ("daily", "weekly"):
        number = KINDS.index(season) - _FIRST_MODEL
        usual = np.where(np.isfinite(error[number]), number, usual)
    error[usual, pairs] *= CLEARLY
    judged = np.isfinite(error)
    least = np.argmin(np.where(judged, error, np.inf), axis=0)
    model = np.where(judged.any(axis=0), least, usual)
    return np.where(usable[model, pairs], model + _FIRST_MODEL, 0)


def _error_of(y: Floats, forecasts: Floats) -> Floats:
    """[n]: the mean absolute error over all horizons; NaN where too few could be judged."""
    by_horizon = [
        _mean_over(np.abs(_residuals(y, forecasts[:, :, place], h)), LEAST_TIMES)
        for place, h in enumerate(HORIZONS)
    ]
    return _mean_over(np.stack(by_horizon, axis=1))


def _many(peers: Ints) -> NDArray[np.bool_]:
    """Whether a GPU has peers enough for their common load to be told from noise."""
    _, which, count = np.unique(peers, return_inverse=True, return_counts=True)
    many: NDArray[np.bool_] = (peers >= 0) & (count[which] > MANY_PEERS)
    return many


def _residuals(y: Floats, forecasts: Floats, h: int) -> Floats:
    """[n, t] by the bin that was foretold; NaN where either is not known."""
    residuals = np.full_like(y, np.nan)
    residuals[:, h:] = y[:, h:] - forecasts[:, :-h]
    return residuals


def _mean_over(values: Floats, least: int = 1) -> Floats:
    """The mean of what is known of each row; NaN where that is less than `least`."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count >= least, total / np.maximum(count, 1), np.nan).astype(np.float32)


# --- the band -----------------------------------------------------------------------------


def band(y: Floats, made: Floats) -> tuple[Floats, Floats]:
    """Middle and high [n, H] of the forecasts that were made last, of `made` [n, t, H].

    `y` [n, t]: what came, percent, NaN where unknown.
    """
    high = []
    factor = FACTOR
    for place, h in enumerate(HORIZONS):
        residuals = _residuals(y, made[:, :, place], h)
        error = _error(residuals)
        scores = residuals[:, h:] / error[:, :-h]
        factor = _factor(scores, factor)
        high.append(made[:, -1, place] + factor * error[:, -1])
    return made[:, -1].copy(), np.clip(np.stack(high, axis=1), 0.0, 100.0).astype(np.float32)


def _error(residuals: Floats) -> Floats:
    """[n, t]: the mean absolute error that each GPU was known for at each bin, in percent."""
    size = np.abs(residuals)
    known = np.isfinite(size)
    everybody = _mean(_mean_over(size.T)[None, :], EVERYBODY)[0]
    total = np.zeros(len(size), np.float32)
    mass = np.zeros(len(size), np.float32)
    error = np.empty_like(size)
    for t in range(size.shape[1]):
        total = total * (1 - ERROR) + np.where(known[:, t], size[:, t], 0.0)
        mass = mass * (1 - ERROR) + known[:, t]
        error[:, t] = (total + PRIOR * everybody[t]) / (mass + PRIOR)
    return np.maximum(error, LEAST_ERROR)


def _factor(scores: Floats, shorter: float) -> float:
    """The quantile of recent scores, with that of the next shorter horizon to fall back on."""
    width = WINDOW if len(scores) * WINDOW >= MANY_SCORES else BINS
    recent = scores[:, -width:]
    known = recent[np.isfinite(recent)]
    if len(known) < LEAST_SCORES:
        return shorter
    times = int(np.isfinite(recent).any(axis=0).sum())
    trust = times / (times + LEAST_TIMES)
    factor = float(np.quantile(known, min(1.0, QUANTILE * (1 + 1 / len(known)))))
    return trust * factor + (1 - trust) * max(factor, shorter)
