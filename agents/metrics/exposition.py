"""Prometheus' text format, written. Pure. (`collectors.exposition` reads it.)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. `suffix` is what a histogram puts behind the name of its family."""

    value: float
    labels: Mapping[str, str]
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. Without samples nothing of it is written: missing is not 0."""

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample]


def text(families: Iterable[Family]) -> str:
    return "".join(line for family in families if family.samples for line in _lines(family))


def histogram(
    counts: Sequence[int], bounds: Sequence[float], total: float, labels: Mapping[str, str]
) -> list[Sample]:
    """`counts` by bucket, the last of them over all `bounds`; `total` is the sum of the values."""
    lines: list[Sample] = []
    below = 0
    for count, bound in zip(counts, (*bounds, float("inf")), strict=True):
        below += count
        lines.append(Sample(below, {**labels, "le": _number(bound)}, "_bucket"))
    return [*lines, Sample(total, labels, "_sum"), Sample(below, labels, "_count")]


def _lines(family: Family) -> Iterable[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for one in family.samples:
        labels = ",".join(
            f'{key}="{_escaped(value, quote=True)}"' for key, value in one.labels.items()
        )
        braces = f"{{{labels}}}" if labels else ""
        yield f"{family.name}{one.suffix}{braces} {_number(one.value)}\n"


def _escaped(value: str, *, quote: bool = False) -> str:
    value = value.replace("\\", r"\\").replace("\n", r"\n")
    return value.replace('"', r"\"") if quote else value


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
