"""The networks as arrays, and their answers with numpy alone.

Both have a first layer over the features of both sides, which is a sum: what the rows give and what
the columns give. So the student, asked about every row with every column, multiplies only once per
row and once per column there, not once per pair.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.prediction.predictor import Floats32
from workers.prediction.profiles import Floats

# Pairs at a time: what they need stays within a core's cache.
BLOCK: Final = 8_192


class Ensemble(NamedTuple):
    """`members` networks side by side: weights [members, in, out] and biases [members, 1, out]."""

    weights: tuple[Floats32, ...]
    biases: tuple[Floats32, ...]

    def each(self, z: Floats) -> Floats:
        """What each member says: [members, n, outputs]."""
        parts = np.array_split(z.astype(np.float32), max(1, -(-len(z) // BLOCK)))
        return np.concatenate([self._block(part) for part in parts], axis=1, dtype=np.float64)

    def mean(self, z: Floats) -> Floats:
        """What they say on average: [n, outputs]."""
        mean: Floats = self.each(z).mean(axis=0)
        return mean

    def take(self, members: NDArray[np.bool_]) -> Ensemble:
        """Some of its members."""
        return Ensemble(*(tuple(one[members] for one in kind) for kind in self))

    def _block(self, z: Floats32) -> Floats32:
        h = np.asarray(np.matmul(z, self.weights[0]) + self.biases[0], np.float32)
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = np.asarray(np.matmul(_silu(h), weight) + bias, np.float32)
        return h


class Student(NamedTuple):
    """One small network that says what the ensemble says on average; ReLU, two hidden layers."""

    rows: Floats32
    columns: Floats32
    first: Floats32
    hidden: Floats32
    hidden_bias: Floats32
    out: Floats32
    out_bias: Floats32

    def add_to(self, said: Floats32, rows: Floats32, columns: Floats32) -> None:
        """Every row with every column, on top of what was `said` [outputs, rows, columns]."""
        left: Floats32 = rows @ self.rows + self.first
        right: Floats32 = columns @ self.columns
        step = max(1, BLOCK // max(1, len(columns)))
        for at in range(0, len(rows), step):
            part = left[at : at + step]
            pairs = np.add(part[:, np.newaxis], right, dtype=np.float32).reshape(-1, right.shape[1])
            said[:, at : at + step] += self._rest(pairs).reshape(-1, len(part), len(columns))

    def pairs(self, rows: Floats32, columns: Floats32) -> Floats32:
        """Row n with column n, each computed by itself: [outputs, n]."""
        return self._rest(rows @ self.rows + self.first + columns @ self.columns)

    def _rest(self, h: Floats32) -> Floats32:
        np.maximum(h, 0.0, out=h)
        deep = np.asarray(np.matmul(h, self.hidden), np.float32)
        deep += self.hidden_bias
        np.maximum(deep, 0.0, out=deep)
        return np.asarray(self.out.T @ deep.T + self.out_bias[:, np.newaxis], np.float32)


def _silu(h: Floats32) -> Floats32:
    with np.errstate(over="ignore"):
        return np.asarray(h / (1.0 + np.exp(-h)), np.float32)
