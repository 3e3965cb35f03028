"""The compiled solver, where it has been built: `make demo` and `make test` do so with a compiler.

`src/muxmatch.h` says what it does. It checks what it is given by itself, and is called without the
interpreter's lock. Pure.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from workers.matching.market import Ints, Market, OutOfTime, Solution, Worths

log = logging.getLogger(__name__)

ROUTE: Final = "native"
FILE: Final = Path(__file__).resolve().parents[3] / "build" / "matching" / "libmuxmatch.so"
# Of the header that the structures below follow.
VERSION: Final = 2
# It keeps two square tables of them; OR-tools does without.
MOST_CLASSES: Final = 8192

_FOUND, _OUT_OF_TIME, _OUT_OF_MEMORY, _BAD_MARKET = range(4)
_NS_PER_S: Final = 1_000_000_000


class _Market(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "classes", "extras")),
        *((name, ctypes.c_void_p) for name in ("worth", "units", "capacity", "extra")),
    ]


class _Rivals(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "classes", "pairs")),
        *((name, ctypes.c_void_p) for name in ("worth", "chain", "row", "job_class", "ends")),
        *((name, ctypes.c_void_p) for name in ("other", "gain")),
    ]


class _Made(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "classes", "pairs")),
        *((name, ctypes.c_void_p) for name in ("worth", "row", "job_class", "change")),
    ]


class _Pairs(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("room", "found")),
        *((name, ctypes.c_void_p) for name in ("row", "job_class", "count")),
    ]


@dataclass(frozen=True)
class Library:
    """The functions of a loaded library: `muxmatch_assign`, and so on."""

    call_assign: Callable[..., int]
    call_changes: Callable[..., int]
    call_chains: Callable[..., int]
    call_runners_up: Callable[..., int]

    def assign(self, market: Market, price: Ints | None, ends: float | None) -> Solution:
        """`ends` on the clock of `time.monotonic`; raises OutOfTime, MemoryError and, for a market
        of more GPUs or classes than it can count, ValueError."""
        worth, wide = np.ascontiguousarray(market.worth, np.int32), _wide(market)
        addresses = [worth.ctypes.data, *(one.ctypes.data for one in wide)]
        given = _Market(*worth.shape, len(market.slots.extra), *addresses)
        reached = _start(market, price)
        made = np.empty((3, _most_pairs(market)), np.int64)
        pairs = _Pairs(made.shape[1], 0, *(column.ctypes.data for column in made))
        end = self.call_assign(
            ctypes.byref(given),
            reached.ctypes.data,
            price is not None,
            0 if ends is None else max(1, int(ends * _NS_PER_S)),
            ctypes.byref(pairs),
        )
        _raise(end)
        row, job_class, count = made[:, : pairs.found]
        order = np.lexsort((job_class, row))
        return Solution(row[order], job_class[order], count[order], reached, ROUTE)

    def lower(self, changes: NDArray[np.int32], worth: Worths, row: Ints, job_class: Ints) -> None:
        """As `certificate.lower`. Raises ValueError for numbers out of their range."""
        _raise_unless_square(changes)
        if len(changes) != worth.shape[1] + 1 or len(row) != len(job_class):
            raise ValueError("the changes, or the pairs, are of another market")
        whole = np.ascontiguousarray(worth, np.int32)
        wide = [np.ascontiguousarray(one, np.int64) for one in (row, job_class)]
        columns: list[NDArray[Any]] = [whole, *wide, changes]
        given = _Made(*worth.shape, len(row), *(one.ctypes.data for one in columns))
        _raise(self.call_changes(ctypes.byref(given)))

    def shorten(self, chain: NDArray[np.int32]) -> None:
        """[classes + 1, classes + 1] of changes, in place: the shortest chain of them from each to
        each. Raises ValueError for numbers out of their range."""
        _raise_unless_square(chain)
        _raise(self.call_chains(chain.ctypes.data, len(chain)))

    def best_others(
        self, worth: Worths, row: Ints, job_class: Ints, ends: Ints, to: NDArray[np.int32]
    ) -> tuple[Ints, Ints]:
        """As `chains.look_at_all`. Raises MemoryError, and ValueError for numbers out of their
        range."""
        if to.shape != (worth.shape[1] + 1, worth.shape[1]) or not len(row) == len(ends) == len(
            job_class
        ):
            raise ValueError("the chains, or the pairs, are of another market")
        whole = [np.ascontiguousarray(one, np.int32) for one in (worth, to)]
        wide = [np.ascontiguousarray(one, np.int64) for one in (row, job_class, ends)]
        other, gain = np.empty(len(row), np.int64), np.empty(len(row), np.int32)
        columns: list[NDArray[Any]] = [*whole, *wide, other, gain]
        addresses = [one.ctypes.data for one in columns]
        given = _Rivals(*worth.shape, len(row), *addresses)
        _raise(self.call_runners_up(ctypes.byref(given)))
        return other, gain.astype(np.int64)


def built_for(classes: int) -> Library | None:
    """None too where there are more classes than it takes."""
    return built() if classes <= MOST_CLASSES else None


@cache
def built() -> Library | None:
    """None where there is none, or one of another version: that is said once, and no failure."""
    try:
        return load(FILE)
    except OSError as error:
        log.warning("Matching by way of OR-tools, which is slower: %s.", error)
        return None


def load(file: Path) -> Library:
    """Raises OSError when it is not there, not for this machine, or of another version."""
    library = ctypes.CDLL(str(file))
    if not hasattr(library, "muxmatch_version") or library.muxmatch_version() != VERSION:
        raise OSError(f"{file} is of another version: run `make matching`")
    assign, chains = library.muxmatch_assign, library.muxmatch_chains
    changes, runners_up = library.muxmatch_changes, library.muxmatch_runners_up
    assign.argtypes = [
        ctypes.POINTER(_Market),
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int64,
        ctypes.POINTER(_Pairs),
    ]
    chains.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    changes.argtypes = [ctypes.POINTER(_Made)]
    runners_up.argtypes = [ctypes.POINTER(_Rivals)]
    return Library(assign, changes, chains, runners_up)


def _wide(market: Market) -> list[Ints]:
    slots = market.slots
    return [
        np.ascontiguousarray(one, np.int64) for one in (market.rows, slots.capacity, slots.extra)
    ]


def _start(market: Market, price: Ints | None) -> Ints:
    """A copy of its own for the search to go on with."""
    shape = market.slots.capacity.shape
    if price is not None and price.shape != shape:
        raise ValueError(f"{len(price)} prices for {shape[0]} classes")
    return np.zeros(shape, np.int64) if price is None else np.array(price, np.int64)


def _most_pairs(market: Market) -> int:
    """A pair takes a GPU and a place, and no row has more than one with each class."""
    return int(min(market.rows.sum(), market.slots.capacity.sum(), market.worth.size))


def _raise_unless_square(table: NDArray[np.int32]) -> None:
    """It is written to where it lies."""
    if table.dtype != np.int32 or not table.flags.c_contiguous or len(table) != table.shape[-1]:
        raise ValueError("not a square of 32-bit numbers, one after the other")


def _raise(end: int) -> None:
    if end == _OUT_OF_TIME:
        raise OutOfTime
    if end == _OUT_OF_MEMORY:
        raise MemoryError("there is not enough memory for the tables of the matching")
    if end != _FOUND:
        raise ValueError("the market has more GPUs or classes than the compiled solver can count")
