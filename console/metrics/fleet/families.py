"""Short ways to say what a metric of the fleet is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from console.metrics.exposition import Family, Kind, labels

NAN: Final = float("nan")

Pairs: TypeAlias = Mapping[str, str]
# The labels of a line and its value; None: not known, and so without a line.
Lines: TypeAlias = Iterable[tuple[Pairs, float | None]]


def gauge(name: str, words: str, lines: Lines) -> Family:
    return _family(name, Kind.GAUGE, words, lines)


def counter(name: str, words: str, lines: Lines) -> Family:
    return _family(name, Kind.COUNTER, words, lines)


def info(name: str, words: str, pairs: Iterable[Pairs]) -> Family:
    return _family(name, Kind.INFO, words, [(one, 1.0) for one in pairs])


def by_pool(
    counts: Mapping[tuple[str, str], int], pools: Sequence[str], label: str, values: Sequence[str]
) -> Lines:
    """Every pair, from 0 on: a counter that begins with its first event hides that event."""
    return [
        ({"pool": pool, label: value}, counts.get((pool, value), 0))
        for pool in pools
        for value in values
    ]


def _family(name: str, kind: Kind, words: str, lines: Lines) -> Family:
    told = list(lines)
    values = [NAN if value is None else float(value) for _, value in told]
    return Family(f"muxflow_{name}", kind, words, [labels(pairs) for pairs, _ in told], values)
