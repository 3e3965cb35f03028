"""The page of the fleet: all its metrics, in their order. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from console.metrics.exposition import Family
from console.metrics.fleet import gpus, nodes, pools, services, work
from console.metrics.fleet.cards import Cards
from console.metrics.fleet.facts import FleetFacts


def families(facts: FleetFacts) -> Iterator[Family]:
    """Names, units and labels are in docs/metrics.md."""
    cards = Cards(facts)
    yield from work.families(facts)
    yield from pools.families(cards)
    yield from services.families(cards)
    yield from nodes.families(cards)
    yield from gpus.families(cards)
