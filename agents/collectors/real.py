"""The readings of a real node: all sources on threads, brought together on each sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agents.collectors import merge
from agents.collectors.base import NodeReading, Source
from agents.collectors.card import Card
from agents.collectors.merge import Found
from agents.collectors.watch import Lane

# How long a sample waits for the prompt sources, all together.
PROMPT_S: Final = 0.03

Shares = Callable[[], Mapping[str, float]]


class RealCollector:
    """Brings together what the sources found, in their order of preference.

    `collect` never takes longer than `PROMPT_S` on top of its own work: what a source has not
    answered by then shows in the next sample.
    """

    def __init__(
        self, cards: Sequence[Card], lanes: Sequence[Sequence[Source]], shares: Shares
    ) -> None:
        """Sources of one lane share a thread. `shares` gives the SM shares of our placements, in
        percent, by placement id."""
        self._cards, self._shares = tuple(cards), shares
        self._lanes = tuple(Lane(sources) for sources in lanes)
        self._watched = tuple(each for lane in self._lanes for each in lane.watched)

    def collect(self, now: float) -> NodeReading:
        asked = [lane for lane in self._lanes if lane.ask(now)]
        _wait_for([lane for lane in asked if lane.prompt])
        fresh = [found for each in self._watched if (found := each.fresh(now))]
        shares = self._shares()
        gpus = tuple(merge.reading(card, _of(card, fresh), shares) for card in self._cards)
        return NodeReading(now, gpus, tuple(each.report(now) for each in self._watched))

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


def _wait_for(lanes: Sequence[Lane]) -> None:
    ends = time.monotonic() + PROMPT_S
    for lane in lanes:
        lane.wait(max(0.0, ends - time.monotonic()))


def _of(card: Card, fresh: Sequence[Mapping[str, Found]]) -> list[Found]:
    return [found[card.uuid] for found in fresh if card.uuid in found]
