"""Fit a model to a table of pairs. PyTorch computes here, and climbs in `likelihood.py`.

Three models are fitted, each to all pairs and once more without each fold: the errors on what was
left out are honest ones. They calibrate the intervals and say how much of each model is used, down
to not at all. The networks are trained side by side in one tensor, the full batch at each step;
several of them together are one model.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction import bilinear, kernel, likelihood, linear
from workers.prediction.bilinear import Bilinear, Sides
from workers.prediction.calibration import FAR, REFERENCES, calibrate, nearest
from workers.prediction.kernel import Kernel
from workers.prediction.model import Model, scaling
from workers.prediction.network import Ensemble, Student
from workers.prediction.profiles import Floats, Ints

Told: TypeAlias = Callable[[float], None]
Mask: TypeAlias = NDArray[np.bool_]

# How much of the bilinear model, of the networks and of the kernel: quarters, 1 at most.
Parts: TypeAlias = tuple[float, float, float]

STEPS: Final = (1.0, 0.75, 0.5, 0.25, 0.0)
BLENDS: Final[tuple[Parts, ...]] = tuple(
    (lift, trust, near)
    for lift, trust, near in product(STEPS, STEPS, STEPS)
    if lift + trust + near <= 1.0
)
# So many standard errors, over the folds, of what networks and kernel must gain to be trusted.
SURE: Final = 2.0
# Beyond so many of its standard deviations an error pulls no harder.
BEND: Final = 0.5


class TorchMissing(Exception):
    """PyTorch is not installed; the message says how to come by it."""


@dataclass(frozen=True)
class Table:
    """n pairs: features `x` [n, features] of both `sides`, `start` [n, outputs] from where the
    model begins, `target` likewise (NaN = not known), `weight` [n], and for each pair the labels of
    whatever is to be left out with it: a pair that shares a label with a fold is not seen there.
    """

    x: Floats
    sides: Sides
    start: Floats
    target: Floats
    weight: Floats
    labels: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Recipe:
    """Sizes and strengths, our choices: small, much decayed networks, which do not lose to simpler
    models where little is known. There are so many epochs that `rows` pairs are seen, within their
    bounds. `student_steps` are those of the quick network, and `alike` the pairs that tell how
    alike pairs are: that work grows with their cube.
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
    alike: int = 300

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
    sees = np.concatenate([np.ones((1, len(table.x)), bool), ~hidden])
    rest = table.target - table.start
    centre, gain = scaling(table.x)
    z = (table.x - centre) * gain
    points = np.random.default_rng(seed).permutation(len(z))[:REFERENCES]
    bilinears = [_bilinear(table, rest, one) for one in sees]
    aims = [rest - one.intercept for one in bilinears]
    unit = _unit(aims[0])
    ensembles = _networks(table, z, [aim / unit for aim in aims], sees, _Course(recipe, seed, told))
    kernels = [
        _kernel(table, z, points, aim, one, recipe) for aim, one in zip(aims, sees, strict=True)
    ]
    models = list(zip(bilinears, ensembles, kernels, strict=True))
    said = [_said(table, z, z[points], unit, *one) for one in models[1:]]
    away = _Away.of(hidden, aims[1:], said)
    parts = away.parts()
    calibration = calibrate(
        table.x,
        table.target,
        away.error(parts),
        _kinds(table.labels),
        table.weight,
        z[points],
        _reach(z, points, hidden),
    )
    lift, trust, near = parts
    return Model(centre, gain, *models[0], unit, lift, trust, near, calibration)


def _bilinear(table: Table, rest: Floats, seen: Mask) -> Bilinear:
    """Pairs with a label in common tell of it but once: the penalty counts labels, not pairs."""
    some = [pair for pair, one in zip(table.labels, seen, strict=True) if one]
    penalty = linear.PENALTY * len(some) / len({label for pair in some for label in pair})
    return bilinear.fit(table.x[seen], table.sides, rest[seen], table.weight[seen], penalty)


def _networks(
    table: Table, z: Floats, aims: Sequence[Floats], sees: Mask, course: _Course
) -> list[Ensemble]:
    """An ensemble for each of those that see something else; all are trained at once."""
    recipe = course.recipe
    sizes = [recipe.members] + [recipe.per_fold] * (len(sees) - 1)
    which = np.repeat(np.arange(len(sees)), sizes)
    networks = _train(z, np.stack(aims)[which], sees[which] * table.weight, course)
    return [networks.take(which == one) for one in range(len(sees))]


def _kernel(
    table: Table, z: Floats, points: Ints, aim: Floats, sees: Mask, recipe: Recipe
) -> Kernel:
    """Of the pairs that it `sees`; some of the points tell how alike pairs are."""
    torch, sides, found = _torch(), table.sides, []
    for y in aim.T:
        known = sees & np.isfinite(y)
        some = points[known[points]][: recipe.alike]
        like = likelihood.likeness(torch, z[some], y[some], sides)
        weight = table.weight[known]
        pull = kernel.fit(like, sides.rows, z[known], z[points], y[known], weight)
        found.append((like.heights, like.rates, pull))
    return Kernel(*(np.stack(one) for one in zip(*found, strict=True)))


def _said(
    table: Table,
    z: Floats,
    points: Floats,
    unit: Floats,
    bilinear: Bilinear,
    networks: Ensemble,
    kernel: Kernel,
) -> tuple[Floats, Floats, Floats]:
    """What each model makes of each pair, from its mean: [n, outputs]."""
    alone = bilinear(table.x) - bilinear.intercept
    return alone, unit * networks.mean(z), kernel(z, points, table.sides.rows)


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


def _unseen(hidden: Mask, said: Sequence[Floats]) -> Floats:
    """[n, outputs]: the mean of what those `said` who had not seen it; NaN where all had."""
    times = hidden.sum(axis=0)[:, np.newaxis]
    total = (np.stack(said) * hidden[..., np.newaxis]).sum(axis=0)
    mean: Floats = np.where(times > 0, total, np.nan) / np.maximum(times, 1)
    return mean


@dataclass(frozen=True)
class _Away:
    """Each pair as it was predicted without it: `rest` [n, outputs] is what the mean of the others
    leaves, `said` [3, n, outputs] what the bilinear model, networks and kernel made of it.
    """

    hidden: Mask
    rest: Floats
    said: Floats

    @classmethod
    def of(cls, hidden: Mask, aims: Sequence[Floats], said: Sequence[Sequence[Floats]]) -> _Away:
        """`aims` and `said` are those of the folds in turn."""
        models = [_unseen(hidden, one) for one in zip(*said, strict=True)]
        return cls(hidden, _unseen(hidden, aims), np.stack(models))

    def parts(self) -> Floats:
        """[3, outputs]: how much of each predicts these best."""
        return np.array([self._parts(output) for output in range(self.rest.shape[1])]).T

    def _parts(self, output: int) -> Parts:
        """The bilinear model alone, unless others are better by more than the luck of few folds."""
        known = self.hidden & np.isfinite(self.rest[:, output])
        folds = known[known.any(axis=1)]
        if not len(folds):
            return 0.0, 0.0, 0.0
        by_fold = {parts: self._by_fold(parts, output, folds) for parts in BLENDS}

        def best(blends: Iterable[Parts]) -> Parts:
            return min(blends, key=lambda parts: float(by_fold[parts].mean()))

        plain, mixed = best(parts for parts in BLENDS if not any(parts[1:])), best(BLENDS)
        gain = by_fold[plain] - by_fold[mixed]
        luck = gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf
        return mixed if gain.mean() > SURE * luck else plain

    def _by_fold(self, parts: Parts, output: int, folds: Mask) -> Floats:
        missed = self._error(np.array(parts)[:, np.newaxis])[:, output]
        return np.array([missed[one].mean() for one in folds])

    def error(self, parts: Floats) -> Floats:
        """[n, outputs]: what the error of the whole would have been, which learns from all: errors
        are taken to fall with the root of what was seen, a fold less."""
        return self._error(parts) * math.sqrt(1.0 - 1.0 / len(self.hidden))

    def _error(self, parts: Floats) -> Floats:
        error: Floats = np.abs(self.rest - (parts[:, np.newaxis] * self.said).sum(axis=0))
        return error


@dataclass(frozen=True)
class _Course:
    """What one training of networks needs beside its data."""

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
    model: Model, seed: int, recipe: Recipe = RECIPE, told: Told = lambda part: None
) -> Student:
    """One small network for what ensemble and kernel add.

    It learns from them, on pairs of any row with any column that were learnt from, and near them.
    """
    torch, rng, rows = _torch(), np.random.default_rng(seed), model.rows
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
