"""The readings of a real node: all sources on threads, brought together on each sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from agents.collectors.base import NodeReading, Source
from agents.collectors.card import Card
from agents.collectors.merge import Found, Merger
from agents.collectors.watch import Batch, Lane

# How long a sample waits for the prompt sources, all together.
PROMPT_S: Final = 0.03

Shares = Callable[[], Mapping[str, float]]


class RealCollector:
    """Brings together what the sources found, in their order of preference.

    `collect` never takes longer than `PROMPT_S` on top of its own work: what a source has not
    answered by then shows in the next sample. It asks the prompt sources; the others wait for
    `ask_others`, so that none of them is at work while a sample is acted on.
    """

    def __init__(
        self, cards: Sequence[Card], lanes: Sequence[Sequence[Source]], shares: Shares
    ) -> None:
        """Sources of one lane share a thread. `shares` gives the SM shares of our placements, in
        percent, by placement id."""
        self._shares = shares
        self._cards = tuple((card.uuid, Merger(card)) for card in cards)
        self._lanes = tuple(Lane(sources) for sources in lanes)
        self._prompt = tuple(lane for lane in self._lanes if lane.prompt)
        self._others = tuple(lane for lane in self._lanes if not lane.prompt)
        self._watched = tuple(each for lane in self._lanes for each in lane.watched)

    def collect(self, now: float) -> NodeReading:
        _wait_for([lane for lane in self._prompt if lane.ask(now)])
        fresh = [found for each in self._watched if (found := each.fresh(now)) is not None]
        shares = self._shares()
        gpus = [merger.reading(_of(uuid, fresh), shares) for uuid, merger in self._cards]
        return NodeReading(now, tuple(gpus), tuple([each.report(now) for each in self._watched]))

    def ask_others(self, now: float) -> None:
        """Those that are due; never waits."""
        for lane in self._others:
            lane.ask(now)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


def _wait_for(lanes: Iterable[Lane]) -> None:
    ends = time.monotonic() + PROMPT_S
    for lane in lanes:
        lane.wait(max(0.0, ends - time.monotonic()))


def _of(uuid: str, fresh: Iterable[Batch]) -> list[Found]:
    return [(origin, found[uuid]) for origin, found in fresh if uuid in found]
