"""Whose a series is, by its labels. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from console.prometheus.answers import Sample


@dataclass(frozen=True)
class Rule:
    """The names of the labels; an empty one is not looked at."""

    service: str
    node: str = ""
    gpu: str = ""


@dataclass(frozen=True)
class Place:
    """An instance of a service that the console knows."""

    service: str
    node: str
    gpu: int


@dataclass(frozen=True)
class Matched:
    """`instance` None: the series is of the service as a whole, or of an instance unknown here."""

    service: str
    instance: Place | None
    value: float | None


def match(
    samples: Iterable[Sample], rule: Rule, places: Iterable[Place]
) -> tuple[list[Matched], list[Sample]]:
    """Those that belong to a service that is known, and those that do not."""
    known: Mapping[str, list[Place]] = _by_service(places)
    mine: list[Matched] = []
    others: list[Sample] = []
    for sample in samples:
        name = sample.labels.get(rule.service, "")
        if name in known:
            mine.append(Matched(name, _instance(sample, rule, known[name]), sample.value))
        else:
            others.append(sample)
    return mine, others


def _by_service(places: Iterable[Place]) -> Mapping[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        found[place.service].append(place)
    return found


def _instance(sample: Sample, rule: Rule, places: list[Place]) -> Place | None:
    """The only one that fits: `node-07:9400` is node-07."""
    node = sample.labels.get(rule.node, "").partition(":")[0]
    gpu = sample.labels.get(rule.gpu, "")
    fitting = [
        place
        for place in places
        if (not rule.node or place.node == node) and (not rule.gpu or str(place.gpu) == gpu)
    ]
    return fitting[0] if len(fitting) == 1 else None
