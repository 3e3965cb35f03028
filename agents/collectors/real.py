"""The readings of a real node: all sources on threads, brought together on each sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from agents.collectors.base import GpuReading, NodeReading, Source
from agents.collectors.card import Card
from agents.collectors.merge import Found, Merger
from agents.collectors.watch import Batch, Kept, Lane

# How long a sample waits for the prompt sources, all together.
PROMPT_S: Final = 0.03
# Those of a second that follow on its first.
SAMPLES_BETWEEN: Final = 4

Shares = Callable[[], Mapping[str, float]]


class RealCollector:
    """Brings together what the sources found, in their order of preference.

    `collect` never takes longer than `PROMPT_S` on top of its own work: what a source has not
    answered by then shows in the next sample. It asks the prompt sources; the others wait for
    `ask_others`, so that none of them is at work while a sample is acted on. Between two calls a
    lane of prompt sources can go on by itself, see `go_on_alone`.
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
        # The lane that can stand for all that make a sample; None where several do.
        self._alone = self._prompt[0] if len(self._prompt) == 1 else None
        self._collected_at = float("-inf")

    def collect(self, now: float) -> NodeReading:
        earlier = self._earlier(now)
        _wait_for([lane for lane in self._prompt if lane.ask(now)])
        self._collected_at = now
        gpus = self._merged([found for lane in self._lanes for found in lane.fresh(now)])
        looks = tuple([each.report(now) for each in self._watched])
        return NodeReading(now, gpus, looks, earlier)

    def go_on_alone(self, is_wanted: bool) -> bool:
        """From the next `collect` on, samples follow on each by themselves until the second is
        over, and show in the one after. Whether they do."""
        if self._alone is not None:
            self._alone.alone = SAMPLES_BETWEEN if is_wanted else 0
        return is_wanted and self._alone is not None

    def ask_others(self, now: float) -> None:
        """Those that are due; never waits."""
        for lane in self._others:
            lane.ask(now)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()

    def _earlier(self, now: float) -> tuple[NodeReading, ...]:
        """With what the other sources found last."""
        alone = self._alone
        kept = [] if alone is None else alone.take_kept()
        return tuple([self._as_sampled(one, now) for one in kept if one[0] > self._collected_at])

    def _as_sampled(self, kept: Kept, now: float) -> NodeReading:
        at, found = kept
        others = (lane for lane in self._lanes if lane is not self._alone)
        return NodeReading(at, self._merged([*found, *(b for o in others for b in o.fresh(now))]))

    def _merged(self, found: Sequence[Batch]) -> tuple[GpuReading, ...]:
        shares = self._shares()
        return tuple([merger.reading(_of(uuid, found), shares) for uuid, merger in self._cards])


def _wait_for(lanes: Iterable[Lane]) -> None:
    ends = time.monotonic() + PROMPT_S
    for lane in lanes:
        lane.wait(max(0.0, ends - time.monotonic()))


def _of(uuid: str, fresh: Iterable[Batch]) -> list[Found]:
    return [(origin, found[uuid]) for origin, found in fresh if uuid in found]
