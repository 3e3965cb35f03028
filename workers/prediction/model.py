"""What was learnt: three models of a pair, how much of each, and a calibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workers.prediction.bilinear import Bilinear
from workers.prediction.calibration import Calibration
from workers.prediction.kernel import Kernel
from workers.prediction.network import Ensemble
from workers.prediction.profiles import Floats


class Prediction(NamedTuple):
    """`value` and the ends of its 90 % interval; each [n, outputs]."""

    value: Floats
    low: Floats
    high: Floats

    def output(self, at: int) -> tuple[Floats, Floats, Floats]:
        """The value of one output and its ends, each [n]."""
        return self.value[:, at], self.low[:, at], self.high[:, at]


class Model(NamedTuple):
    """`start + bilinear(x, lift) + trust · unit · mean(ensemble(z)) + near · kernel(z)`,
    z = (x − centre) · gain.

    `lift`, `trust` and `near` [outputs] say how much of each predicts best what was left out.
    """

    centre: Floats
    gain: Floats
    bilinear: Bilinear
    ensemble: Ensemble
    kernel: Kernel
    unit: Floats
    lift: Floats
    trust: Floats
    near: Floats
    calibration: Calibration

    def predict(self, x: Floats, start: Floats) -> Prediction:
        """`x` [n, features] are the features of both sides, `start` [n, outputs] where from."""
        z = self.scaled(x)
        value = start + self.bilinear(x, self.lift) + self.learnt(z)
        return Prediction(value, *self.calibration.interval(value, x, z))

    def scaled(self, x: Floats) -> Floats:
        scaled: Floats = (x - self.centre) * self.gain
        return scaled

    def learnt(self, z: Floats) -> Floats:
        """What ensemble and kernel add."""
        added: Floats = self.trust * self.unit * self.ensemble.mean(z)
        if self.near.any():
            added += self.near * self.kernel(z, self.calibration.references, self.rows)
        return added

    @property
    def rows(self) -> int:
        """So many features, the first ones, are the row's."""
        return len(self.bilinear.cross)


def scaling(x: Floats) -> tuple[Floats, Floats]:
    """Centre and gain; a feature that never varied has none, for nothing was learnt about it."""
    spread = x.std(axis=0)
    return x.mean(axis=0), np.where(spread > 1e-6, 1.0 / np.maximum(spread, 0.1), 0.0)
