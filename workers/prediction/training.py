"""From observed pairs to a version of the predictor, with its error on pairs that it never saw.

Whole pairs, of an online and a job family, are held out, chosen by a hash of their names: the same
ones at every training, so that versions can be compared on them. They are never learnt from.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from workers.prediction import artifact, domain, learner, linear, queueing
from workers.prediction.analytic import Analytic
from workers.prediction.calibration import REFERENCES
from workers.prediction.errors import Errors, errors
from workers.prediction.features import Side
from workers.prediction.learner import RECIPE, Recipe, Table, Told
from workers.prediction.model import Model
from workers.prediction.observations import Observations
from workers.prediction.predictor import Judgement, Predictor
from workers.prediction.profiles import Floats, Ints
from workers.prediction.trained import THROUGHPUT, Trained, View, start_of

Progress: TypeAlias = Callable[[float, str], None]

HELD_OUT: Final = 0.2
SCATTER: Final = 500
# A card that was seen less often is not served. Our choice.
LEAST_ON_A_CARD: Final = 10
SIMULATED: Final = "simulated:"
# Of the time, what the ensemble takes; the student takes the rest.
ENSEMBLE_PART: Final = 0.75
NETWORKS: Final = "Fitting the networks"
QUICK: Final = "Teaching the quick network"


class Family(NamedTuple):
    """Mean absolute errors on the held-out pairs of one job family."""

    n: int
    network: float
    analytic: float
    mean: float


@dataclass(frozen=True)
class Report:
    """Of the job's throughput on held-out pairs; `online` of the online side's slow-down there,
    where that was measured: {} where it never was.

    `overall` has the errors of the network, of the analytic estimate, of always the mean, of an
    additive model, and of the version in force where there is one. Coverage is the part of the
    truths inside their 90 % interval; `scatter` has predicted, observed and family of at most 500.
    `blend` is how much of each of the three models is used, the rest is the mean.
    `student_gap` is how far the quick network is from the ensemble, in the mean.
    """

    counts: dict[str, int]
    overall: dict[str, Errors]
    online: dict[str, Errors]
    families: dict[str, Family]
    blend: dict[str, float]
    coverage_90: float
    interval_width_90: float
    out_of_range_share: float
    student_gap: float
    scatter: list[tuple[float, float, str]]
    seed: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "overall": {name: one._asdict() for name, one in self.overall.items()},
            "online": {name: one._asdict() for name, one in self.online.items()},
            "families": {name: one._asdict() for name, one in self.families.items()},
        }


class Learnt(NamedTuple):
    """A version as a file, and how it did."""

    data: bytes
    report: Report


def train(
    observations: Observations,
    *,
    seed: int,
    origin: str,
    made_at: str = "",
    active: Predictor | None = None,
    recipe: Recipe = RECIPE,
    progress: Progress = lambda part, said: None,
) -> Learnt:
    """`origin` says in a word where the observations are from, `active` is what they are also
    predicted with for comparison.

    Raises ValueError when there is too little to learn from, TorchMissing without PyTorch.
    """
    usable = observations.take(_usable(observations))
    held = held_out(usable)
    learning, rest = usable.take(np.flatnonzero(~held)), usable.take(np.flatnonzero(held))
    if not len(learning) or not len(rest):
        raise ValueError(f"{len(usable)} usable observations of too few pairs: nothing to hold out")
    predictor = _fit(learning, seed, recipe, progress)
    report = _report(predictor, learning, rest, active, seed)
    header = {"origin": origin, "made_at": made_at, "seed": seed, "report": report.to_json()}
    progress(1.0, "Trained")
    return Learnt(artifact.dump(predictor, header), report)


def held_out(observations: Observations) -> Any:
    """[n] bool: whether the pair of each is held out."""
    part = [zlib.crc32(pair.encode()) / 2**32 for pair in pairs_of(observations)]
    return np.array(part) < HELD_OUT


def pairs_of(observations: Observations) -> tuple[str, ...]:
    sides = zip(observations.online_family, observations.job_family, strict=True)
    return tuple("|".join(sides_of) for sides_of in sides)


def _usable(observations: Observations) -> Ints:
    """Those with profiles that can be, a share, and a throughput that was measured."""
    possible = domain.flags(
        domain.impossible(observations.online), domain.impossible(observations.jobs)
    )
    share, throughput = observations.share, observations.throughput
    known = (share >= 0.0) & (share <= 1.0) & (throughput >= 0.0) & np.isfinite(throughput)
    weighed = np.isfinite(observations.weight) & (observations.weight > 0.0)
    return np.flatnonzero(known & weighed & [not one for one in possible])


def _fit(seen: Observations, seed: int, recipe: Recipe, progress: Progress) -> Trained:
    view = View(Side.of(seen.online), Side.of(seen.jobs), _served(seen))
    table = Table(
        view.pairs(seen.online, seen.jobs, seen.share, seen.gpu_model),
        view.sides(),
        start_of(seen.online, seen.jobs, seen.share),
        np.column_stack([seen.throughput, _log_slowdown(seen)]),
        seen.weight / seen.weight.mean(),
        [(pair,) for pair in pairs_of(seen)],
    )
    model = learner.fit(table, seed, recipe, _stretch(progress, 0.0, ENSEMBLE_PART, NETWORKS))
    told = _stretch(progress, ENSEMBLE_PART, 1.0, QUICK)
    student = learner.distil(model, seed, recipe, told)
    return Trained(artifact.NETWORK, view, model, student)


def _stretch(progress: Progress, low: float, high: float, said: str) -> Told:
    """A part of the whole that is told as if it were all."""
    return lambda part: progress(low + part * (high - low), said)


def _served(seen: Observations) -> tuple[str, ...]:
    """The cards that a version may predict for. What was seen of simulated ones tells nothing of
    real ones: a version that learnt from any simulated card serves no other."""
    cards, counts = np.unique(np.array(seen.gpu_model), return_counts=True)
    enough = [str(card) for card in cards[counts >= LEAST_ON_A_CARD] if card]
    simulated = [card for card in enough if card.startswith(SIMULATED)]
    any_simulated = any(card.startswith(SIMULATED) for card in seen.gpu_model)
    return tuple(simulated if any_simulated else enough)


def _log_slowdown(seen: Observations) -> Floats:
    logarithm: Floats = np.log(_slowdown(seen))
    return logarithm


def _slowdown(seen: Observations) -> Floats:
    """Where only p99 was measured, the slow-down that the queueing law makes it of."""
    told = queueing.slowdown(seen.p99_ratio, np.minimum(seen.online.util, 1.0))
    slowdown = np.where(np.isnan(seen.slowdown), told, seen.slowdown)
    possible: Floats = np.where(slowdown > 0.0, slowdown, np.nan)
    return possible


def _report(
    predictor: Trained, seen: Observations, rest: Observations, active: Predictor | None, seed: int
) -> Report:
    # What the file says is what will predict.
    judged, observed = _judge(predictor, rest), rest.throughput
    rivals = {"analytic": _judge(Analytic(), rest)}
    if active is not None:
        rivals["active"] = _judge(active, rest)
    told = {
        "network": judged.throughput,
        **{name: one.throughput for name, one in rivals.items()},
        "mean": np.full(len(rest), np.average(seen.throughput, weights=seen.weight)),
        "additive": _additive(predictor.view, seen, rest),
    }
    inside = (judged.throughput_low <= observed) & (observed <= judged.throughput_high)
    return Report(
        counts={
            "observations": len(seen) + len(rest),
            "pairs": len({*pairs_of(seen), *pairs_of(rest)}),
            "held_out": len(rest),
        },
        overall={name: errors(one, observed) for name, one in told.items()},
        online=_online({"network": judged, **rivals}, _slowdown(rest)),
        families=_families(rest, told),
        blend=_blend(predictor.model),
        coverage_90=float(inside.mean()),
        interval_width_90=float((judged.throughput_high - judged.throughput_low).mean()),
        out_of_range_share=sum(map(bool, judged.flags)) / len(rest),
        student_gap=_student_gap(predictor),
        scatter=_scatter(judged.throughput, rest, seed),
        seed=seed,
    )


def _online(judged: dict[str, Judgement], observed: Floats) -> dict[str, Errors]:
    known = np.isfinite(observed)
    if not known.any():
        return {}
    return {name: errors(one.slowdown[known], observed[known]) for name, one in judged.items()}


def _judge(predictor: Predictor, pairs: Observations) -> Judgement:
    return predictor.judge(pairs.online, pairs.jobs, pairs.share, pairs.gpu_model)


def _additive(view: View, seen: Observations, rest: Observations) -> Floats:
    """A baseline: what each side adds by itself, without any notion of contention."""
    x, other = (view.pairs(one.online, one.jobs, one.share, one.gpu_model) for one in (seen, rest))
    fitted = linear.fit(x, seen.throughput[:, np.newaxis], seen.weight / seen.weight.mean())
    predicted: Floats = fitted(other)[:, 0]
    return predicted


def _families(rest: Observations, told: dict[str, Floats]) -> dict[str, Family]:
    family = np.array(rest.job_family)
    missed = {name: np.abs(one - rest.throughput) for name, one in told.items()}
    return {
        str(name): Family(
            int((family == name).sum()),
            *(float(missed[one][family == name].mean()) for one in ("network", "analytic", "mean")),
        )
        for name in np.unique(family)
    }


def _blend(model: Model) -> dict[str, float]:
    says = {"bilinear": model.lift, "networks": model.trust, "process": model.near}
    return {name: float(of[THROUGHPUT]) for name, of in says.items()}


def _student_gap(predictor: Trained) -> float:
    model, rows = predictor.model, predictor.student.rows.shape[0]
    z = model.calibration.references[:REFERENCES].astype(np.float32)
    quick = predictor.student.pairs(z[:, :rows], z[:, rows:])
    return float(np.abs(quick[0] - model.learnt(z.astype(np.float64))[:, 0]).mean())


def _scatter(predicted: Floats, rest: Observations, seed: int) -> list[tuple[float, float, str]]:
    chosen = np.sort(np.random.default_rng(seed).permutation(len(rest))[:SCATTER])
    return [
        (round(float(predicted[at]), 4), round(float(rest.throughput[at]), 4), rest.job_family[at])
        for at in chosen.tolist()
    ]
