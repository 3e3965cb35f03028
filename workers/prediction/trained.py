"""The predictor that was learnt: networks where they know enough, else the analytic estimate.

The network predicts two figures of a pair: the job's throughput, and the logarithm of the online
side's slow-down. Both begin at the analytic estimate; what was learnt is added to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction import analytic, domain
from workers.prediction.analytic import Analytic
from workers.prediction.bilinear import Sides
from workers.prediction.features import FEATURES, Side
from workers.prediction.model import Model
from workers.prediction.network import Student
from workers.prediction.predictor import Floats32, Judgement, Scores
from workers.prediction.profiles import Floats, Profiles
from workers.prediction.queueing import tail

Mask: TypeAlias = NDArray[np.bool_]
Ends: TypeAlias = tuple[Floats, Floats, Floats]

THROUGHPUT: Final = 0
SLOWDOWN: Final = 1
OUTPUTS: Final = ("throughput", "log slowdown")


@dataclass(frozen=True)
class View:
    """What the network sees: each side's features, the share and which of the cards it is."""

    online: Side
    jobs: Side
    gpu_models: tuple[str, ...]

    def rows(self, online: Profiles, share: Floats, gpu_model: tuple[str, ...]) -> Floats:
        cards = np.array(gpu_model, object)[:, np.newaxis] == np.array(self.gpu_models, object)
        return np.column_stack([self.online.matrix(online), share, cards.astype(np.float64)])

    def columns(self, jobs: Profiles) -> Floats:
        return self.jobs.matrix(jobs)

    def sides(self) -> Sides:
        """Whose each feature of a pair is; which of the cards it is, several say together."""
        each, share, cards = len(FEATURES), 1, len(self.gpu_models)
        group = [*range(each + share), *[-1] * cards, *range(each + share, 2 * each + share)]
        return Sides(each + share + cards, np.array(group))

    def pairs(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Floats:
        return np.column_stack([self.rows(online, share, gpu_model), self.columns(jobs)])

    def strange_rows(self, online: Profiles, gpu_model: tuple[str, ...]) -> tuple[str, ...]:
        served = frozenset(self.gpu_models)
        cards = ("" if one in served else f"{one or 'no card'} was not learnt" for one in gpu_model)
        sides = zip(self.online.strange(online), cards, strict=True)
        return tuple("; ".join(filter(None, pair)) for pair in sides)


class Parts(NamedTuple):
    """What each side gives by itself: to the student, [n, features], and to the bilinear model, the
    factors of what that says."""

    rows: Floats32
    columns: Floats32
    left: Floats32
    right: Floats32


@dataclass(frozen=True)
class Trained:
    """See `Predictor`. The student answers `scores`, the whole ensemble `judge`."""

    name: str
    view: View
    model: Model
    student: Student

    def scores(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Scores:
        start = Analytic().scores(online, jobs, share, gpu_model)
        rows, columns = self.view.rows(online, share, gpu_model), self.view.columns(jobs)
        added = self._added(rows, columns)
        added[:, _any(self.view.strange_rows(online, gpu_model))] = 0.0
        added[:, :, _any(self.view.jobs.strange(jobs))] = 0.0
        np.exp(added[SLOWDOWN], out=added[SLOWDOWN])
        added[SLOWDOWN] *= start.slowdown
        added[THROUGHPUT] += start.throughput
        np.maximum(added[THROUGHPUT], 0.0, out=added[THROUGHPUT])
        return Scores(added[THROUGHPUT], added[SLOWDOWN])

    def score_pairs(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Scores:
        start = Analytic().score_pairs(online, jobs, share, gpu_model)
        parts = self._parts(self.view.rows(online, share, gpu_model), self.view.columns(jobs))
        added = self.student.pairs(parts.rows, parts.columns)
        added += np.einsum("onk,okn->on", parts.left, parts.right)
        strange = self.view.strange_rows(online, gpu_model), self.view.jobs.strange(jobs)
        added[:, _any(domain.flags(*strange))] = 0.0
        throughput = np.maximum(start.throughput + added[THROUGHPUT], 0.0)
        return Scores(throughput, start.slowdown * np.exp(added[SLOWDOWN]))

    def _added(self, rows: Floats, columns: Floats) -> Floats32:
        """What was learnt beyond the start, [outputs, rows, columns]."""
        parts = self._parts(rows, columns)
        added: Floats32 = parts.left @ parts.right
        self.student.add_to(added, parts.rows, parts.columns)
        return added

    def _parts(self, rows: Floats, columns: Floats) -> Parts:
        model, wide = self.model, rows.shape[1]
        scaled = (rows - model.centre[:wide]) * model.gain[:wide]
        across = (columns - model.centre[wide:]) * model.gain[wide:]
        left, right = model.bilinear.factors(rows, columns, model.lift)
        return Parts(_narrow(scaled), _narrow(across), _narrow(left), _narrow(right))

    def judge(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Judgement:
        cautious = Analytic().judge(online, jobs, share, gpu_model)
        strange = self.view.strange_rows(online, gpu_model), self.view.jobs.strange(jobs)
        flags = domain.flags(*strange)
        told = self.model.predict(
            self.view.pairs(online, jobs, share, gpu_model), start_of(online, jobs, share)
        )
        fine = ~_any(flags)[:, np.newaxis] & np.isfinite(told.high)
        throughput = _where(fine[:, THROUGHPUT], told.output(THROUGHPUT), _throughput(cautious))
        slowdown = _where(fine[:, SLOWDOWN], _exp(told.output(SLOWDOWN)), _slowdown(cautious))
        value, low, high = (np.maximum(one, 0.0) for one in throughput)
        return Judgement(
            *(value, low, high),
            *slowdown,
            p99=tail(*slowdown, analytic.load_of(online).util),
            source=tuple(self.name if one else analytic.NAME for one in fine[:, THROUGHPUT]),
            flags=flags,
        )


def start_of(online: Profiles, jobs: Profiles, share: Floats) -> Floats:
    """Where the network begins: [n, outputs]."""
    found = analytic.estimate(analytic.load_of(online), analytic.load_of(jobs), share)
    return np.column_stack([found.throughput, np.log(found.slowdown)])


def _throughput(of: Judgement) -> Ends:
    return of.throughput, of.throughput_low, of.throughput_high


def _slowdown(of: Judgement) -> Ends:
    return of.slowdown, of.slowdown_low, of.slowdown_high


def _where(fine: Mask, first: Ends, second: Ends) -> Ends:
    value, low, high = (np.where(fine, a, b) for a, b in zip(first, second, strict=True))
    return value, low, high


def _exp(logarithms: Ends) -> Ends:
    value, low, high = (np.exp(one) for one in logarithms)
    return value, low, high


def _any(flags: tuple[str, ...]) -> Mask:
    return np.array([bool(one) for one in flags], bool)


def _narrow(wide: Floats) -> Floats32:
    return np.ascontiguousarray(wide, np.float32)
