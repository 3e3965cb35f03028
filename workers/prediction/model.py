"""What was learnt: an additive model, an ensemble of networks on its errors, and a calibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workers.prediction.calibration import Calibration
from workers.prediction.linear import Additive
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
    """`start + additive(x, lift) + trust · unit · mean(ensemble(z))`, z = (x − centre) · gain.

    `lift` and `trust` [outputs] say how much of each has proved itself on what was left out.
    """

    centre: Floats
    gain: Floats
    additive: Additive
    ensemble: Ensemble
    unit: Floats
    lift: Floats
    trust: Floats
    calibration: Calibration

    def predict(self, x: Floats, start: Floats) -> Prediction:
        """`x` [n, features] are the features of both sides, `start` [n, outputs] where from."""
        z = self.scaled(x)
        value = start + self.additive(x, self.lift) + self.learnt(z)
        return Prediction(value, *self.calibration.interval(value, x, z))

    def scaled(self, x: Floats) -> Floats:
        scaled: Floats = (x - self.centre) * self.gain
        return scaled

    def learnt(self, z: Floats) -> Floats:
        """What the ensemble adds."""
        added: Floats = self.trust * self.unit * self.ensemble.each(z).mean(axis=0)
        return added


def scaling(x: Floats) -> tuple[Floats, Floats]:
    """Centre and gain; a feature that never varied has none, for nothing was learnt about it."""
    spread = x.std(axis=0)
    return x.mean(axis=0), np.where(spread > 1e-6, 1.0 / np.maximum(spread, 0.1), 0.0)
