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
from typing import Final

import numpy as np

from workers.matching.market import Ints, Market, OutOfTime, Solution

log = logging.getLogger(__name__)

ROUTE: Final = "native"
FILE: Final = Path(__file__).resolve().parents[3] / "build" / "matching" / "libmuxmatch.so"
# Of the header that the structures below follow.
VERSION: Final = 1
# It keeps two square tables of them; OR-tools does without.
MOST_CLASSES: Final = 8192

_FOUND, _OUT_OF_TIME, _OUT_OF_MEMORY, _BAD_MARKET = range(4)
_NS_PER_S: Final = 1_000_000_000


class _Market(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "classes", "extras")),
        *((name, ctypes.c_void_p) for name in ("worth", "units", "capacity", "extra")),
    ]


class _Pairs(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("room", "found")),
        *((name, ctypes.c_void_p) for name in ("row", "job_class", "count")),
    ]


@dataclass(frozen=True)
class Library:
    """`call` is `muxmatch_assign` of a loaded library."""

    call: Callable[..., int]

    def assign(self, market: Market, price: Ints | None, ends: float | None) -> Solution:
        """`ends` on the clock of `time.monotonic`; raises OutOfTime, MemoryError and, for a market
        of more GPUs or classes than it can count, ValueError."""
        worth, wide = np.ascontiguousarray(market.worth, np.int32), _wide(market)
        addresses = [worth.ctypes.data, *(one.ctypes.data for one in wide)]
        given = _Market(*worth.shape, len(market.slots.extra), *addresses)
        reached = _start(market, price)
        made = np.empty((3, _most_pairs(market)), np.int64)
        pairs = _Pairs(made.shape[1], 0, *(column.ctypes.data for column in made))
        end = self.call(
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
    call = library.muxmatch_assign
    call.argtypes = [
        ctypes.POINTER(_Market),
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int64,
        ctypes.POINTER(_Pairs),
    ]
    return Library(call)


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


def _raise(end: int) -> None:
    if end == _OUT_OF_TIME:
        raise OutOfTime
    if end == _OUT_OF_MEMORY:
        raise MemoryError("there is not enough memory for the tables of the matching")
    if end != _FOUND:
        raise ValueError("the market has more GPUs or classes than the compiled solver can count")
