"""What must be refused by the compiled solver itself: no Market would let it pass.

Run as a program on the library built with the sanitizers, it also solves random markets from any
prices; the sanitizers end it where memory or arithmetic go wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.workers.matching.markets import lifelike, random_market, random_price
from workers.matching import certificate
from workers.matching.certificate import FAR
from workers.matching.market import MOST_WORTH
from workers.matching.native.library import MOST_CLASSES, Library, load


def hostile() -> dict[str, SimpleNamespace]:
    classes = MOST_CLASSES + 1
    return {
        "a row of less than nothing": market(rows=[1, -1]),
        "more GPUs than are counted": market(rows=[2**30, 1]),
        "GPUs whose sum overflows": market(rows=[2**62, 2**62]),
        "a class of less than nothing": market(capacity=[2, -1]),
        "more places than extras": market(capacity=[1, 2]),
        "places whose sum overflows": market(capacity=[2**63 - 1, 2**63 - 1]),
        "fewer places than extras": market(capacity=[1, 0]),
        "extras that rise": market(capacity=[2, 0], extra=[1, 2]),
        "an extra below 0": market(extra=[0, -1]),
        "an extra beyond the range": market(extra=[MOST_WORTH + 1, 0]),
        "a worth beyond the range": market(worth=[[1, 2], [3, MOST_WORTH + 1]]),
        "more classes than fit": market(np.ones((1, classes)), [1], [0] * classes, []),
    }


def market(worth=((5, 4), (3, 2)), rows=(1, 1), capacity=(1, 1), extra=(0, 0)) -> SimpleNamespace:
    slots = SimpleNamespace(capacity=np.array(capacity, int), extra=np.array(extra, int))
    return SimpleNamespace(worth=np.array(worth, np.int32), rows=np.array(rows, int), slots=slots)


def calls(library: Library) -> dict[str, Callable[[], object]]:
    """Each asks for something that there is not."""
    return {
        **{name: partial(library.assign, one, None, None) for name, one in hostile().items()},
        **{f"rivals: {name}": call for name, call in _rivals(library).items()},
        **{f"changes: {name}": call for name, call in _changes(library).items()},
        **{f"chains: {name}": partial(library.shorten, one) for name, one in _chains().items()},
    }


def _rivals(library: Library) -> dict[str, Callable[[], object]]:
    usual = {
        **{"worth": [[5, 4], [3, 2]], "row": [1], "job_class": [0], "ends": [2]},
        "to": [[0, 1], [1, 0], [2, 2]],
    }
    wrong: dict[str, dict[str, Any]] = {
        "a row there is not": {"row": [2]},
        "a row before the first": {"row": [-1]},
        "a class there is not": {"job_class": [3]},
        "an end there is not": {"ends": [-1]},
        "a worth beyond the range": {"worth": [[1, 2], [3, FAR + 1]]},
        "a chain beyond the range": {"to": [[0, 1], [1, 0], [-FAR - 1, 0]]},
        "chains of another market": {"to": [[0, 1], [1, 0]]},
        "fewer ends than pairs": {"ends": []},
    }
    return {
        name: partial(
            library.best_others, **{key: np.array(of, int) for key, of in (usual | one).items()}
        )
        for name, one in wrong.items()
    }


def _changes(library: Library) -> dict[str, Callable[[], object]]:
    worth = np.array([[5, 4], [3, 2]])
    pairs = {"row": np.array([1]), "job_class": np.array([0])}
    usual = {"changes": np.zeros((3, 3), np.int32), "worth": worth, **pairs}
    wrong: dict[str, dict[str, Any]] = {
        "a row there is not": {"row": np.array([2])},
        "a class there is not": {"job_class": np.array([2])},
        "a class before the first": {"job_class": np.array([-1])},
        "fewer classes than pairs": {"job_class": np.array([], int)},
        "a worth beyond the range": {"worth": worth + FAR},
        "changes of another market": {"changes": np.zeros((2, 2), np.int32)},
        "no square": {"changes": np.zeros((3, 2), np.int32)},
    }
    return {name: partial(library.lower, **(usual | one)) for name, one in wrong.items()}


def _chains() -> dict[str, Any]:
    return {
        "beyond the range": np.full((2, 2), FAR + 1, np.int32),
        "no square": np.zeros((2, 3), np.int32),
        "wider numbers": np.zeros((2, 2), np.int64),
        "not one after the other": np.zeros((4, 4), np.int32)[::2, ::2],
    }


def refused(library: Library) -> Iterator[str]:
    for name, call in calls(library).items():
        try:
            call()
        except ValueError:
            yield name


def gains_round(library: Library) -> None:
    """Of chains that lead round and gain none is the shortest: it ends all the same."""
    library.shorten(np.full((50, 50), -FAR, np.int32))


def main(file: Path) -> None:
    library, rng = load(file), np.random.default_rng(5)
    assert list(refused(library)) == list(calls(library))
    gains_round(library)
    for number in range(100):
        one = random_market(rng, int(rng.integers(2, 40)))
        found = library.assign(one, random_price(rng, one) if number % 2 else None, None)
        proof = certificate.prove(one, found)
        assert proof.gap == 0
        library.shorten(proof.changes)
        to = np.ascontiguousarray(proof.changes[:-1].T)
        library.best_others(one.worth, found.row, found.job_class, found.job_class, to)
    large = lifelike(400, 33)
    assert certificate.prove(large, library.assign(large, None, None)).gap == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
