"""Why a running job stays where it is, whatever a round would like."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from agents.wire.names import Origin, PlacementState
from console.evictions.models import Eviction, Silence
from console.policies.rules import PolicyBody
from console.workloads.models import OfflineJob

# Nobody decided on the last proposal: this job is not proposed again for so long. Our choice.
UNDECIDED_S: Final = 600.0


_STATES: Final[Mapping[str, str]] = {
    PlacementState.STARTING: "it is starting",
    PlacementState.FROZEN: "it is frozen",
    PlacementState.STOPPING: "it is stopping",
    PlacementState.UNKNOWN: "its node does not say how it is",
}


class Held(Protocol):
    """A live placement; by the names of the columns."""

    @property
    def state(self) -> str: ...
    @property
    def started_at(self) -> datetime | None: ...
    @property
    def job__state(self) -> str: ...


def why_fixed(
    placement: Held, body: PolicyBody, interruptions_left: int, reason: str, now: datetime
) -> str:
    """To stand after "Not moved:"; empty: it may be moved. `reason` is one of `reasons`."""
    if placement.job__state == OfflineJob.State.PROFILING:
        return "it is being profiled"
    if placement.state != PlacementState.RUNNING or placement.started_at is None:
        return _STATES.get(placement.state, "it has not started yet")
    if (now - placement.started_at).total_seconds() < body.residence_s:
        return "it has only just started"
    if interruptions_left == 0:
        return "it was moved as often as its pool allows in a day"
    return reason


def reasons(now: datetime) -> Mapping[UUID, str]:
    """By placement, what people and evictions say against a move; the strongest reason last."""
    undecided = Eviction.objects.filter(
        origin=Origin.MOVE,
        state=Eviction.State.EXPIRED,
        ended_at__gt=now - timedelta(seconds=UNDECIDED_S),
    )
    silenced = Silence.objects.filter(origin=Origin.MOVE, until__gt=now)
    open_ = Eviction.objects.filter(state__in=Eviction.OPEN)
    found: dict[UUID, str] = {}
    for rows, reason in (
        (undecided, "nobody decided on its last move"),
        (silenced, "a person chose to keep it running"),
        (open_, "an eviction of it is open"),
    ):
        found |= dict.fromkeys(rows.values_list("placement_id", flat=True), reason)
    return found
