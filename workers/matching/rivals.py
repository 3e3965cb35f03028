"""What a GPU is worth to the plan, and who else would have liked to have it. Pure.

At the certificate's prices a GPU earns what its pair is worth less the price of the job's class:
that is the price of the GPU. The runner-up is the class that would earn the next most there; what
it would earn less is what it would cost the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workers.matching import explain
from workers.matching.columns import Ints
from workers.matching.matched import Matched
from workers.matching.weights import SCALE

_NEVER = np.int32(-(2**30))
_PIECE = 1_024


@dataclass(frozen=True)
class Rivals:
    """Of each pair: the runner-up ("": there is none), what it would cost the plan, the price of
    the GPU, both in GPUs, and the sentence. Of a pair that was not matched nothing."""

    name: list[str]
    loss: list[float | None]
    price: list[float | None]
    said: list[str]


def rivals(matched: Matched, row: Ints, job_class: Ints) -> Rivals:
    """`row` -1: the pair was not matched."""
    count = len(row)
    found = Rivals([""] * count, [None] * count, [None] * count, [""] * count)
    if not len(matched.problem.classes):
        return found
    for start in range(0, count, _PIECE):
        asked = np.arange(start, min(start + _PIECE, count))
        some = asked[row[asked] >= 0]
        if len(some):
            _note(matched, row[some], job_class[some], some, found)
    return found


def _note(matched: Matched, row: Ints, job_class: Ints, at: Ints, found: Rivals) -> None:
    problem = matched.problem
    every = np.arange(len(row))
    worth = problem.worth[row]
    gain = worth - matched.proof.price.astype(np.int32)
    gain[worth <= 0] = _NEVER
    own = gain[every, job_class].astype(np.int64)
    gain[every, job_class] = _NEVER
    other = gain.argmax(axis=1)
    theirs = gain[every, other].astype(np.int64)
    speed = explain.percents(problem.throughput(row, other))
    examples = problem.classes.examples
    lost = ((own - np.maximum(theirs, 0)) / SCALE).tolist()
    price = (np.maximum(own, 0) / SCALE).tolist()
    some = (theirs > _NEVER).tolist()
    for place, (pair, who) in enumerate(zip(at.tolist(), other.tolist(), strict=True)):
        found.price[pair] = price[place]
        if some[place]:
            name = examples[who].name
            found.name[pair], found.loss[pair] = name, lost[place]
            found.said[pair] = explain.runner_up(name, speed[place], lost[place])
        else:
            found.said[pair] = explain.NO_OTHER
