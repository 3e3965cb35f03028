"""Which version of a policy was in force when, and what it made of the signals of one GPU. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.wire.names import Signal
from console.policies.rules import PolicyBody
from console.telemetry.scales import Card, Scale, scales


@dataclass(frozen=True)
class Saved:
    """A version that came into force at `at` (Unix s), named as `Balanced v3`."""

    at: float
    name: str
    body: PolicyBody


@dataclass(frozen=True)
class Force:
    """From `start` to `end` this version held. `scales` by signal."""

    start: float
    end: float
    name: str
    scales: dict[Signal, Scale]


def in_force(saved: Sequence[Saved], card: Card, start: float, end: float) -> list[Force]:
    """`saved` ascending. Before the first of them no policy was in force, so nothing is told."""
    ends = [*(one.at for one in saved[1:]), end]
    return [
        Force(max(one.at, start), min(until, end), one.name, _scales(one.body, card))
        for one, until in zip(saved, ends, strict=False)
        if until > start and one.at < end
    ]


def _scales(body: PolicyBody, card: Card) -> dict[Signal, Scale]:
    made = scales(card, body.thresholds, body.memory_reserve_percent)
    return {scale.signal: scale for scale in made}
