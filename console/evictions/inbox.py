"""The lists: what waits for a person, what is under way, what to look at again, what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Final

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.urls import reverse
from django.utils import timezone

from agents.wire.names import PHASES, Phase
from console import looks
from console.accounts import access
from console.accounts.models import Role, User
from console.evictions import lifecycle, words
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.inventory.models import Gpu
from console.looks import Look

DONE_SHOWN: Final = 8
# World time; from here on a single emergency stands on its own in the list. Our choice.
MUCH_LOST_S: Final = 1_800
SINGLES: Final = "singles"
WAITING_SHOWN: Final = 50
_WITH: Final = ("placement__job", "gpu__node__pool", "to_gpu__node", "decided_by")


@dataclass(frozen=True)
class Row:
    """One line of the list."""

    eviction: Eviction
    title: str
    note: str
    stages: int
    look: Look


@dataclass(frozen=True)
class Group:
    """Emergencies of one rule on one GPU and day, to be looked at after the fact."""

    gpu: Gpu
    origin: str
    day: date
    count: int
    lost_work_s: float | None
    first_at: datetime
    last_at: datetime

    @property
    def key(self) -> str:
        return f"{self.gpu.pk}.{self.origin}.{self.day.isoformat()}"

    @property
    def title(self) -> str:
        word = looks.look(self.origin, "origin").word
        if self.count == 1:
            return f"{word} on {self.gpu}"
        return f"{self.count} × {word.lower()} on {self.gpu}"

    @property
    def repeats(self) -> bool:
        return self.count > 1

    @property
    def asks(self) -> bool:
        """Whether it stands on its own in the list: repeats, or much lost work."""
        return self.repeats or (self.lost_work_s or 0) >= MUCH_LOST_S


@dataclass(frozen=True)
class Singles:
    """All groups that do not ask for a person each, as one line."""

    count: int
    lost_work_s: float | None


@dataclass(frozen=True)
class Inbox:
    """All of the left pane. The counts are of all there are, the rows of those shown."""

    waiting: Sequence[Row]
    under_way: Sequence[Row]
    groups: Sequence[Group]
    singles: Singles | None
    done: Sequence[Row]
    waiting_count: int
    done_count: int

    @property
    def more_done(self) -> int:
        return self.done_count - len(self.done)

    @property
    def to_review(self) -> int:
        return sum(group.count for group in self.groups) + (
            self.singles.count if self.singles else 0
        )

    @property
    def review_url(self) -> str:
        """Where to begin to review: with what asks, else with all the rest."""
        key = self.groups[0].key if self.groups else SINGLES
        return f"{reverse('evictions')}?review={key}"

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.under_way or self.to_review or self.done)


def visible(user: User) -> QuerySet[Eviction]:
    """The evictions in the pools that `user` may see."""
    pools = access.pools_for(user, Role.VIEWER)
    return Eviction.objects.filter(gpu__node__pool__in=pools).select_related(*_WITH)


def read(user: User, now: datetime) -> Inbox:
    """The left pane as `user` may see it."""
    mine = visible(user)
    waiting = mine.filter(state=State.PROPOSED).order_by("deadline_at", "proposed_at")
    busy = mine.filter(state__in=(State.APPROVED, *lifecycle.UNDER_WAY)).order_by("-state_since")
    done = mine.filter(ended_at__gte=_midnight(now)).order_by("-ended_at")
    found = groups(mine)
    return Inbox(
        waiting=_rows(waiting[:WAITING_SHOWN]),
        under_way=_rows(busy[:WAITING_SHOWN]),
        groups=[group for group in found if group.asks],
        singles=singles(found),
        done=_rows(done[:DONE_SHOWN]),
        waiting_count=waiting.count(),
        done_count=done.count(),
    )


def _rows(evictions: QuerySet[Eviction]) -> list[Row]:
    return [row(eviction) for eviction in evictions]


def row(eviction: Eviction) -> Row:
    stages = PHASES.index(Phase(eviction.phase)) + 1 if eviction.phase else 0
    return Row(eviction, words.title(eviction), words.note(eviction), stages, words.look(eviction))


def _midnight(now: datetime) -> datetime:
    return datetime.combine(timezone.localdate(now), time.min, now.tzinfo)


def groups(mine: QuerySet[Eviction]) -> list[Group]:
    """What the agents decided and nobody has looked at: repeats and much lost work first."""
    found = (
        to_review(mine)
        .select_related(None)
        .annotate(day=TruncDate("proposed_at"))
        .values("gpu_id", "origin", "day")
        .annotate(
            count=Count("pk"),
            lost=Sum("lost_work_s"),
            first_at=Min("proposed_at"),
            last_at=Max("proposed_at"),
        )
        .order_by("-count", F("lost").desc(nulls_last=True))
    )
    rows = list(found)
    gpus = Gpu.objects.select_related("node").in_bulk({one["gpu_id"] for one in rows})
    return [
        Group(
            gpu=gpus[one["gpu_id"]],
            origin=one["origin"],
            day=one["day"],
            count=one["count"],
            lost_work_s=one["lost"],
            first_at=one["first_at"],
            last_at=one["last_at"],
        )
        for one in rows
    ]


def singles(found: Sequence[Group]) -> Singles | None:
    """What remains when those that ask for themselves are taken out."""
    rest = [group for group in found if not group.asks]
    lost = [group.lost_work_s for group in rest if group.lost_work_s is not None]
    return Singles(len(rest), sum(lost) if lost else None) if rest else None


def to_review(mine: QuerySet[Eviction]) -> QuerySet[Eviction]:
    """Ended, and nobody has looked at it."""
    return mine.filter(review=Eviction.Review.WANTED, ended_at__isnull=False)


def members(mine: QuerySet[Eviction], key: str) -> list[Eviction]:
    """The evictions of the group with this key, newest first; empty for a key that is none."""
    if key == SINGLES:
        return _single_members(mine)
    try:
        gpu_id, origin, day = key.split(".")
        on = date.fromisoformat(day)
        of_group = Q(gpu_id=int(gpu_id), origin=origin, proposed_at__date=on)
    except ValueError:
        return []
    return list(to_review(mine).filter(of_group).order_by("-proposed_at"))


def _single_members(mine: QuerySet[Eviction]) -> list[Eviction]:
    """What no group that asks holds."""
    asking = {(group.gpu.pk, group.origin, group.day) for group in groups(mine) if group.asks}
    return [
        eviction
        for eviction in to_review(mine).order_by("-proposed_at")
        if (eviction.gpu_id, eviction.origin, eviction.proposed_at.date()) not in asking
    ]
