"""The faults of one GPU: the story that is being told, and the last ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from agents.mps import timeline
from agents.mps.journal import Account
from agents.mps.timeline import Known, Timeline, Victim, Witness
from agents.wire.ids import uuid7

# How many past faults are kept beside the one that is being recovered from.
MOST_PAST: Final = 31


class Stories:
    """At most one is open. Times are unix seconds."""

    def __init__(self, gpu_uuid: str, left_open: Timeline | None = None) -> None:
        """`left_open`: the story that an earlier life of this agent was telling."""
        self._gpu_uuid = gpu_uuid
        self._known: Known = {}
        self._told: tuple[Timeline, ...] = ()
        self.all: tuple[Timeline, ...] = () if left_open is None else (left_open,)

    @property
    def open(self) -> Timeline | None:
        return self.all[-1] if self.all and not self.all[-1].ended else None

    def meet(self, there: Collection[Victim], now: float) -> None:
        """Who is on the GPU: they may be hit by the next fault."""
        self._known = timeline.remember(self._known, there, now)

    def begin(self, why: str, now: float) -> None:
        if self.open is None:
            begun = timeline.begin(str(uuid7()), self._gpu_uuid, now, why, self._known)
            self.all = (*self.all[-MOST_PAST:], begun)
        else:
            self.note(f"again: {why}", now)

    def tell_alone(self, why: str, witness: Witness, now: float) -> None:
        """While no story is open."""
        told = timeline.alone(str(uuid7()), self._gpu_uuid, now, why, witness, self._known)
        self.all = (*self.all[-MOST_PAST:], told)

    def learn(
        self, account: Account, witnesses: Iterable[Witness], named: Iterable[Victim] = ()
    ) -> None:
        """`named`: our own processes among those that the account speaks of, met or not."""
        if self.open is not None:
            met = {pid for pid, (one, _) in self._known.items() if one.side == "offline"}
            ours = {one.pid: (one, self.open.at) for one in named if one.pid not in met}
            self._amend(timeline.learn(self.open, account, witnesses, {**self._known, **ours}))

    def note(self, what: str, now: float) -> None:
        if self.open is not None:
            self._amend(timeline.add(self.open, what, now))

    def close(self, now: float) -> None:
        if self.open is not None:
            self._amend(timeline.close(self.open, now))

    def end(self, why: str, now: float) -> None:
        if self.open is not None:
            self._amend(timeline.end(self.open, why, now))

    def news(self) -> tuple[Timeline, ...]:
        """Those that have begun or gone on since this was asked last."""
        if self.all is self._told:
            return ()
        fresh = tuple(one for one in self.all if one not in self._told)
        self._told = self.all
        return fresh

    def _amend(self, told: Timeline) -> None:
        self.all = (*self.all[:-1], told)
