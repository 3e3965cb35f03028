"""What the page of a service tells of its load ahead, and of how good that was until now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from console.forecasts import ahead, gathering, scoring, service_history
from console.forecasts.ahead import BEFORE, Ahead, Step, known
from console.forecasts.outlook import Outlook
from console.forecasts.scoring import LEAST, Score
from console.forecasts.series import AHEAD, DAILY_HOURS, WEEKLY_HOURS
from console.forecasts.service_history import Day
from console.workloads.models import OnlineService


@dataclass(frozen=True)
class Lack:
    """History that would let the forecast rest on more: hours that are needed, and are there."""

    season: str
    needs_hours: int
    has_hours: int


@dataclass(frozen=True)
class ServiceAhead:
    ahead: Ahead
    day: Day

    @property
    def lines(self) -> list[tuple[Step, Score]]:
        """One a horizon; empty where nothing is foretold."""
        return list(zip(self.ahead.steps, self.scores, strict=True)) if self.ahead.steps else []

    @property
    def scores(self) -> list[Score]:
        return scoring.scores(self.day.percent, self.day.middle, self.day.high)

    @property
    def least(self) -> int:
        """So many forecasts must have been judged before an error is told."""
        return LEAST

    @property
    def lack(self) -> Lack | None:
        """None where there is history enough, or none at all."""
        has = self.day.known_hours
        if has is None or has >= WEEKLY_HOURS:
            return None
        if has < DAILY_HOURS:
            return Lack("day", DAILY_HOURS, has)
        return Lack("week", WEEKLY_HOURS, has)


def load(service: OnlineService, now: datetime) -> ServiceAhead:
    """One query."""
    end = gathering.bin_number(now.timestamp())
    day = service_history.day(service.pk, end)
    bins = ahead.measured(day.percent[-BEFORE:], end)
    return ServiceAhead(Ahead(_outlook(day, end), bins, ahead.bin_width_s()), day)


def _outlook(day: Day, end: int) -> Outlook | None:
    """The newest, while any of what it foretells is still to come."""
    if day.newest is None or day.kind is None or day.newest < end - AHEAD:
        return None
    row = day.newest - day.first
    middle, high = (
        tuple(known(value) for value in one[row].tolist()) for one in (day.middle, day.high)
    )
    return Outlook(gathering.ended_at(day.newest), middle, high, day.kind)


def chart(told: ServiceAhead) -> dict[str, Any]:
    """As static/js/charts/line.js wants it: with what was expected of each bin an hour before."""
    options = ahead.chart(told.ahead)
    first = len(told.day.percent) - BEFORE - AHEAD
    before = [known(value) for value in told.day.middle[first:-AHEAD, -1].tolist()]
    blank = [None] * (len(options["x"]) - len(before))
    line = {"label": "Expected an hour before", "values": [*before, *blank], "look": "earlier"}
    options["series"].append(line)
    return options
