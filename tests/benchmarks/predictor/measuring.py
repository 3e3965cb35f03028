"""The product's learner on one table: pairs held out, and whole families held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.benchmarks.predictor.tables import Measured
from workers.prediction import learner, linear
from workers.prediction.errors import errors
from workers.prediction.learner import Table
from workers.prediction.model import Prediction
from workers.prediction.profiles import Floats, Ints

# Each fifth of the pairs is held out once in a round of five splits.
FOLDS: Final = 5
# Ridge penalty of the additive baseline.
PLAIN: Final = 1.0


@dataclass(frozen=True)
class Held:
    """Rows that a model had not seen, and what it and the baselines made of them."""

    rows: Ints
    predicted: Floats
    low: Floats
    high: Floats
    mean: float | Floats
    additive: Floats
    far: Floats


def split(table: Measured, number: int) -> Held:
    """Split `number`, seeded: a fifth of the unordered pairs is held out."""
    pairs = sorted(set(table.pair))
    order = np.random.default_rng(number // FOLDS).permutation(len(pairs))
    away = {pairs[at] for at in order[number % FOLDS :: FOLDS].tolist()}
    held = np.array([pair in away for pair in table.pair])
    return _hold_out(table, held, [(pair,) for pair in table.pair], number)


def family(table: Measured, name: str) -> Held:
    """A family is left out, wherever it is: its workloads are known by their profiles alone, as
    nothing is on record of them. Those beside them may be on record."""
    sides = list(zip(table.my_family, table.other_family, strict=True))
    held = np.array([name in side for side in sides])
    return _hold_out(table, held, sides, 0)


def families(table: Measured) -> list[str]:
    return sorted({*table.my_family, *table.other_family})


def _hold_out(
    table: Measured, held: np.ndarray, labels: Sequence[tuple[str, ...]], seed: int
) -> Held:
    x, seen, rest = table.x, np.flatnonzero(~held), np.flatnonzero(held)
    speed, even = table.speed[seen, np.newaxis], np.ones(len(seen))
    nothing = np.zeros((len(table.speed), 1))
    kept = [labels[at] for at in seen.tolist()]
    taught = Table(x[seen], table.sides, nothing[seen], speed, even, kept)
    model = learner.fit(taught, seed)
    told: Prediction = model.predict(x[rest], nothing[rest])
    value, low, high = told.output(0)
    additive = linear.fit(x[seen], speed, even, PLAIN)(x[rest])[:, 0]
    return Held(rest, value, low, high, float(speed.mean()), additive, _far(x, seen, rest))


def _far(x: Floats, seen: Ints, rest: Ints) -> Floats:
    """Whether each lies outside the range of what was seen, in any of its features."""
    low, high = x[seen].min(axis=0) - 1e-9, x[seen].max(axis=0) + 1e-9
    return ((x[rest] < low) | (x[rest] > high)).any(axis=1)


def figures(table: Measured, held: Sequence[Held]) -> Mapping[str, float]:
    """The mean over the splits of each figure."""
    each = [_figures(table.speed[one.rows], one) for one in held]
    mean = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    return {**mean, **_ratios(mean)}


def pooled(table: Measured, held: Sequence[Held]) -> Mapping[str, float]:
    """The figures of all rows that were held out in any of them, together."""

    def all_of(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in held])

    together = Held(
        rows=np.concatenate([one.rows for one in held]),
        predicted=all_of("predicted"),
        low=all_of("low"),
        high=all_of("high"),
        mean=np.concatenate([np.full(len(one.rows), one.mean) for one in held]),
        additive=all_of("additive"),
        far=all_of("far"),
    )
    found = _figures(table.speed[together.rows], together)
    return {**found, **_ratios(found)}


def _figures(truth: Floats, held: Held) -> dict[str, float]:
    found = errors(held.predicted, truth)
    inside = (held.low <= truth) & (truth <= held.high)
    return {
        **{"mae": found.mae, "rmse": found.rmse, "spearman": found.spearman or 0.0},
        "baseline_mean_mae": float(np.abs(held.mean - truth).mean()),
        "baseline_additive_mae": float(np.abs(held.additive - truth).mean()),
        "coverage_90": float(inside.mean()),
        "interval_width_90": float((held.high - held.low).mean()),
        "out_of_range_share": float(held.far.mean()),
    }


def _ratios(found: Mapping[str, float]) -> dict[str, float]:
    return {
        "mae_over_mean": found["mae"] / found["baseline_mean_mae"],
        "mae_over_additive": found["mae"] / found["baseline_additive_mae"],
        "width_over_mae": found["interval_width_90"] / found["mae"],
    }
