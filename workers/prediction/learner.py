"""Fit a model to a table of pairs. The one module that computes with PyTorch.

Several networks are trained side by side in one tensor, the full batch at each step. Some of them
see everything: their mean is the prediction. Two of each fold do not see that fold: the error of
their mean there is an honest one. It calibrates the intervals and weighs the parts of the model
against each other: one that does not help on what was left out is trusted less, down to not at all.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction import linear
from workers.prediction.calibration import FAR, REFERENCES, calibrate, nearest
from workers.prediction.linear import Additive
from workers.prediction.model import Model, scaling
from workers.prediction.network import Ensemble, Student
from workers.prediction.profiles import Floats, Ints

Told: TypeAlias = Callable[[float], None]
Mask: TypeAlias = NDArray[np.bool_]

# Of how much a part of the model may be trusted.
STEPS: Final = (1.0, 0.75, 0.5, 0.25, 0.0)
# So many standard errors, over the folds, of what the network must gain to be trusted.
SURE: Final = 2.0
# Beyond so many of its standard deviations an error pulls no harder.
BEND: Final = 0.5


class TorchMissing(Exception):
    """PyTorch is not installed; the message says how to come by it."""


@dataclass(frozen=True)
class Table:
    """n pairs: features `x` [n, features] of both sides, `start` [n, outputs] from where the model
    begins, `target` likewise (NaN = not known), `weight` [n], and for each pair the labels of
    whatever is to be left out with it: a pair that shares a label with a fold is not seen there.
    """

    x: Floats
    start: Floats
    target: Floats
    weight: Floats
    labels: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Recipe:
    """Sizes and strengths, our choices: small, much decayed networks, which do not lose to simpler
    models where little is known. There are so many epochs that `rows` pairs are seen, within their
    bounds. `student_steps` are those of the quick network.
    """

    members: int = 6
    folds: int = 5
    per_fold: int = 2
    width: int = 64
    layers: int = 3
    rows: int = 100_000
    least_epochs: int = 150
    most_epochs: int = 400
    rate: float = 0.02
    decay: float = 1.0
    dropout: float = 0.1
    student_steps: int = 1_500

    def epochs(self, n: int) -> int:
        return max(self.least_epochs, min(self.most_epochs, self.rows // n))


RECIPE: Final = Recipe()

# The student: its hidden layers, how many pairs it is told of, how far from those learnt from (in
# their standard deviations), how many at a time, and how fast it learns.
STUDENT: Final = (16, 16)
LESSONS: Final = 30_000
NEARBY: Final = 0.3
BATCH: Final = 1_024
PACE: Final = 0.01


def fit(table: Table, seed: int, recipe: Recipe = RECIPE, told: Told = lambda part: None) -> Model:
    """Raises TorchMissing, and ValueError when the table is too small to leave anything out."""
    hidden = folds_of(table.labels, recipe.folds, seed)
    rest = table.target - table.start
    seen = np.ones((1, len(rest)), bool)
    additives = [_additive(table, rest, one) for one in (*seen, *~hidden)]
    members = np.repeat(
        np.arange(len(additives)), [recipe.members] + [recipe.per_fold] * len(hidden)
    )
    levels = np.stack([one.intercept for one in additives])[members, np.newaxis]
    sums = np.stack([one(table.x) for one in additives])[members]
    centre, gain = scaling(table.x)
    z = (table.x - centre) * gain
    unit = _unit(rest - sums[0])
    weight = np.concatenate([seen, ~hidden])[members] * table.weight
    networks = _train(z, (rest - sums) / unit, weight, _Course(recipe, seed, told))
    apart = members > 0
    away = _Away.of(
        hidden, rest, levels[apart], sums[apart], unit * networks.each(z)[apart], recipe
    )
    lift, trust = away.parts()
    chosen = np.random.default_rng(seed).permutation(len(z))[:REFERENCES]
    calibration = calibrate(
        table.x,
        table.target,
        away.error(lift, trust),
        _kinds(table.labels),
        table.weight,
        z[chosen],
        _reach(z, chosen, hidden),
    )
    kept = networks.take(members == 0)
    return Model(centre, gain, additives[0], kept, unit, lift, trust, calibration)


def _additive(table: Table, rest: Floats, seen: Mask) -> Additive:
    """Pairs with a label in common tell of it but once: the penalty counts labels, not pairs."""
    some = [pair for pair, one in zip(table.labels, seen, strict=True) if one]
    penalty = linear.PENALTY * len(some) / len({label for pair in some for label in pair})
    return linear.fit(table.x[seen], rest[seen], table.weight[seen], penalty)


def folds_of(labels: Sequence[tuple[str, ...]], folds: int, seed: int) -> Mask:
    """Which pairs each fold leaves out: [folds, n]. Raises ValueError when none can be."""
    distinct = sorted({label for pair in labels for label in pair})
    shuffled = np.random.default_rng(seed).permutation(len(distinct))
    fold = {distinct[at]: number % folds for number, at in enumerate(shuffled.tolist())}
    member = [{fold[label] for label in pair} for pair in labels]
    hidden = np.array([[number in one for one in member] for number in range(folds)])
    hidden = hidden[hidden.any(axis=1) & ~hidden.all(axis=1)]
    if not len(hidden):
        raise ValueError("all pairs are of one kind: none can be left out to learn from")
    return hidden


def _kinds(labels: Sequence[tuple[str, ...]]) -> Ints:
    """A number for each set of labels: [n]."""
    numbers: dict[frozenset[str], int] = {}
    return np.array([numbers.setdefault(frozenset(pair), len(numbers)) for pair in labels])


def _unit(left: Floats) -> Floats:
    """The spread of each output, by which it is divided while it is learnt."""
    known = np.isfinite(left)
    square = np.where(known, left, 0.0) ** 2
    unit: Floats = np.sqrt(square.sum(0) / np.maximum(known.sum(0), 1)) + 1e-9
    return unit


def _reach(z: Floats, chosen: Ints, hidden: Mask) -> float:
    """How far nearly all left-out pairs are from what was seen of the references."""
    is_reference = np.isin(np.arange(len(z)), chosen)
    distances = [
        nearest(z[one], z[~one & is_reference]) for one in hidden if (~one & is_reference).any()
    ]
    return float(np.quantile(np.concatenate(distances), FAR)) if distances else np.inf


@dataclass(frozen=True)
class _Away:
    """Each pair as it was predicted without it: [n, outputs]; `rest` is what the mean of the
    others leaves, `additive` and `network` what those models made of it.

    `jitter` [outputs] is the variance between two networks that saw the same, `spare` the part of
    it that the ensemble averages away, and `seen` the part of the pairs that these networks saw.
    """

    hidden: Mask
    rest: Floats
    additive: Floats
    network: Floats
    jitter: Floats
    spare: float
    seen: float

    @classmethod
    def of(
        cls,
        hidden: Mask,
        rest: Floats,
        levels: Floats,
        sums: Floats,
        said: Floats,
        recipe: Recipe,
    ) -> _Away:
        """`levels`, `sums` and `said` [members, n, outputs] are those of the folds in turn."""
        out = np.repeat(hidden, recipe.per_fold, axis=0)[..., np.newaxis]
        times = np.maximum(out.sum(0), 1)
        grouped = said.reshape(len(hidden), recipe.per_fold, *rest.shape)
        between = grouped.var(axis=1, ddof=1)[hidden].mean(axis=0)
        return cls(
            hidden,
            np.where(out.any(0), rest, np.nan) - (levels * out).sum(0) / times,
            ((sums - levels) * out).sum(0) / times,
            (said * out).sum(0) / times,
            between,
            1.0 / recipe.per_fold - 1.0 / recipe.members,
            float(1.0 - hidden.mean()),
        )

    def parts(self) -> tuple[Floats, Floats]:
        """Of the additive model and of the network, how much of each predicts these best."""
        chosen = [self._parts(output) for output in range(self.rest.shape[1])]
        lift, trust = np.array(chosen).T
        return lift, trust

    def _parts(self, output: int) -> tuple[float, float]:
        """The network is not trusted for a gain that could be the luck of a few folds."""
        known = self.hidden & np.isfinite(self.rest[:, output])
        folds = known[known.any(axis=1)]
        if not len(folds):
            return 0.0, 0.0
        error = {
            (lift, trust): self._error(lift, trust)[:, output]
            for lift, trust in product(STEPS, STEPS)
        }
        by_fold = {
            parts: np.array([missed[one].mean() for one in folds])
            for parts, missed in error.items()
        }
        best = min(by_fold, key=lambda parts: float(by_fold[parts].mean()))
        plain = min((one for one in by_fold if not one[1]), key=lambda one: by_fold[one].mean())
        gain = by_fold[plain] - by_fold[best]
        luck = gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf
        return best if gain.mean() > SURE * luck else plain

    def error(self, lift: Floats, trust: Floats) -> Floats:
        """What the error of the whole ensemble, trained on all, would have been: two networks
        jitter more than many, and errors are taken to fall with the root of the pairs seen.
        """
        error = self._error(lift, trust)
        known = np.isfinite(error)
        square = (np.where(known, error, 0.0) ** 2).sum(0) / np.maximum(known.sum(0), 1) + 1e-18
        steadier: Floats = 1.0 - trust**2 * self.jitter * self.spare / square
        return error * np.sqrt(np.clip(steadier, 0.25, 1.0) * self.seen)

    def _error(self, lift: float | Floats, trust: float | Floats) -> Floats:
        error: Floats = np.abs(self.rest - lift * self.additive - trust * self.network)
        return error


@dataclass(frozen=True)
class _Course:
    """What one training needs beside its data."""

    recipe: Recipe
    seed: int
    told: Told


def _train(z: Floats, target: Floats, weight: Floats, course: _Course) -> Ensemble:
    """`target` [members, n, outputs] in units of its spread, `weight` [members, n], 0 = unseen."""
    torch, recipe = _torch(), course.recipe
    with _seeded(torch, course.seed):
        known = np.isfinite(target)
        pull = torch.tensor(known * weight[..., np.newaxis], dtype=torch.float32)
        pull /= pull.sum(1, keepdim=True).clamp(min=1e-9)
        aim = torch.tensor(np.where(known, target, 0.0), dtype=torch.float32)
        inputs = torch.tensor(z, dtype=torch.float32).expand(len(target), -1, -1)
        shape = [z.shape[1], *[recipe.width] * recipe.layers, target.shape[2]]
        net = _Batch(torch, len(target), shape, recipe.dropout, torch.nn.functional.silu)
        epochs = recipe.epochs(len(z))
        optimiser, schedule = _optimiser(torch, net, recipe.rate, recipe.decay, epochs)
        for epoch in range(epochs):
            loss = (_bent(torch, net.forward(inputs), aim) * pull).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            course.told((epoch + 1) / epochs)
        return net.arrays()


class _Batch:
    """Networks of one shape, side by side."""

    def __init__(
        self, torch: Any, members: int, shape: Sequence[int], dropout: float, active: Any
    ) -> None:
        self.torch, self.dropout, self.active = torch, dropout, active
        sizes = list(pairwise(shape))
        self.weights = [torch.randn(members, a, b).div_(math.sqrt(a)) for a, b in sizes]
        self.biases = [torch.zeros(members, 1, b) for _, b in sizes]
        for one in (*self.weights, *self.biases):
            one.requires_grad_()

    def forward(self, h: Any) -> Any:
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = self.torch.baddbmm(bias, h, weight)
            if layer < last:
                h = self.torch.nn.functional.dropout(self.active(h), self.dropout)
        return h

    def arrays(self) -> Ensemble:
        def numbers(tensors: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(one.detach().numpy() for one in tensors)

        return Ensemble(numbers(self.weights), numbers(self.biases))


def _bent(torch: Any, said: Any, aim: Any) -> Any:
    return torch.nn.functional.smooth_l1_loss(said, aim, reduction="none", beta=BEND)


def _optimiser(torch: Any, net: _Batch, rate: float, decay: float, steps: int) -> tuple[Any, Any]:
    groups = [
        {"params": net.weights, "weight_decay": decay},
        {"params": net.biases, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=steps, pct_start=0.2
    )
    return optimiser, schedule


@contextmanager
def _seeded(torch: Any, seed: int) -> Iterator[None]:
    """Weights that decay towards 0 become denormal numbers, which take a core ten times as long:
    they are 0 meanwhile."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_flush_denormal(True)
        try:
            yield
        finally:
            torch.set_flush_denormal(False)


def _torch() -> Any:
    """Loaded when needed, since workers that only predict do without. Raises TorchMissing."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise TorchMissing("PyTorch is not installed here: run `make ml`.") from None


def distil(
    model: Model, rows: int, seed: int, recipe: Recipe = RECIPE, told: Told = lambda part: None
) -> Student:
    """One small network for what the ensemble adds; the first `rows` features are the row's.

    It learns from the ensemble, on pairs of any row with any column that were learnt from, and
    near them.
    """
    torch, rng = _torch(), np.random.default_rng(seed)
    known = model.calibration.references
    left, right = (known[rng.integers(len(known), size=LESSONS)] for _ in range(2))
    z = np.column_stack([left[:, :rows], right[:, rows:]])
    z += NEARBY * rng.standard_normal(z.shape) * (model.gain > 0.0)
    aim = model.learnt(z)
    unit = _unit(aim)
    with _seeded(torch, seed):
        net = _Batch(torch, 1, [z.shape[1], *STUDENT, aim.shape[1]], 0.0, torch.relu)
        _imitate(torch, net, z, aim / unit, _Course(recipe, seed, told))
    (first, hidden, out), (b1, b2, b3) = net.arrays()
    scale = unit.astype(np.float32)
    return Student(
        *(first[0, :rows], first[0, rows:], b1[0, 0]),
        *(hidden[0], b2[0, 0], out[0] * scale, b3[0, 0] * scale),
    )


def _imitate(torch: Any, net: _Batch, z: Floats, aim: Floats, course: _Course) -> None:
    inputs = torch.tensor(z, dtype=torch.float32)[None]
    target = torch.tensor(aim, dtype=torch.float32)[None]
    steps = course.recipe.student_steps
    optimiser, schedule = _optimiser(torch, net, PACE, 0.0, steps)
    for step in range(steps):
        some = torch.randint(len(z), (BATCH,))
        loss = ((net.forward(inputs[:, some]) - target[:, some]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        course.told((step + 1) / steps)
