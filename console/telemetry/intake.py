"""Telemetry on its way into the grid: kept as it came, judged together a few times a second.

Of each connection only the newest second waits, so this holds no more than the fleet is large,
however slow we are.
"""

from __future__ import annotations

from typing import Protocol

from agents.wire.messages import PackedTelemetry
from console.telemetry import plausible
from console.telemetry.latest import Facts, Rows
from console.telemetry.plausible import Arrival, Sampled, sample_time
from console.telemetry.refusals import Refusals


class Sender(Protocol):
    """The connection that telemetry came over."""

    name: str

    def rows(self, facts: Facts, epoch: int) -> Rows: ...


class Intake:
    def __init__(self, refused: Refusals) -> None:
        self.samples_total = 0
        self._refused = refused
        self._waiting: dict[Sender, tuple[PackedTelemetry, float]] = {}

    def __len__(self) -> int:
        """How many connections have telemetry that waits."""
        return len(self._waiting)

    def put(self, sender: Sender, telemetry: PackedTelemetry, received_at: float) -> None:
        at = sample_time(telemetry.sent_at, received_at)
        self._waiting[sender] = telemetry, at

    def drain(self, facts: Facts, epoch: int) -> list[Sampled]:
        """What can be true of all that came, for a grid of these facts."""
        waiting, self._waiting = self._waiting, {}
        senders = list(waiting)
        arrivals = [
            Arrival(telemetry, sender.rows(facts, epoch), at)
            for sender, (telemetry, at) in waiting.items()
        ]
        sampled, refused = plausible.sift(arrivals)
        for reason, times, first in refused:
            self._refused.add(reason, senders[first].name, count=times)
        self.samples_total += sum(len(each.rows) for each in sampled)
        return sampled
