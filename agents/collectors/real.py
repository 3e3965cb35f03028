"""The readings of a real node: every source on a thread, brought together on each sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agents.collectors import merge
from agents.collectors.base import Findings, NodeReading, Origin, Source
from agents.collectors.card import Card
from agents.collectors.watch import Watched

# How long a sample waits for the prompt sources, all together.
PROMPT_S: Final = 0.03

Shares = Callable[[], Mapping[str, float]]


class RealCollector:
    """Brings together what the sources found, in their order of preference.

    `collect` never takes longer than `PROMPT_S` on top of its own work: what a source has not
    answered by then shows in the next sample.
    """

    def __init__(self, cards: Sequence[Card], sources: Sequence[Source], shares: Shares) -> None:
        """`shares` gives the SM shares of our placements, in percent, by placement id."""
        self._cards, self._shares = tuple(cards), shares
        self._watched = tuple(Watched(source) for source in sources)

    def collect(self, now: float) -> NodeReading:
        asked = [watched for watched in self._watched if watched.ask(now)]
        _wait_for([watched for watched in asked if watched.source.prompt])
        fresh = [
            (Origin(watched.source.name, found[0]), found[1])
            for watched in self._watched
            if (found := watched.fresh(now)) is not None
        ]
        shares = self._shares()
        gpus = tuple(merge.reading(card, _of(card, fresh), shares) for card in self._cards)
        return NodeReading(now, gpus, tuple(watched.report(now) for watched in self._watched))

    def close(self) -> None:
        for watched in self._watched:
            watched.close()


def _wait_for(asked: Sequence[Watched]) -> None:
    ends = time.monotonic() + PROMPT_S
    for watched in asked:
        watched.wait(max(0.0, ends - time.monotonic()))


def _of(card: Card, fresh: Sequence[tuple[Origin, Findings]]) -> list[merge.Found]:
    return [
        merge.Found(origin, findings[card.uuid])
        for origin, findings in fresh
        if card.uuid in findings
    ]
