"""What the pages of rounds read, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from console.accounts import access
from console.accounts.models import Role, User
from console.evictions.models import Eviction
from console.scheduling import move_plans, prices
from console.scheduling.models import Decision, MovePlan, Round
from console.scheduling.plan import WORDS, Code
from console.scheduling.plan_page import PlanPage
from console.scheduling.prices import Price
from console.workloads.models import OfflineJob
from console.workloads.queries import jobs_in_sight

# Result and bound that agree this closely are the same number.
PROVEN: Final = 1e-6
CHARTED_ROUNDS: Final = 120

Kind = Decision.Kind
# The tables of a round's page: address, heading, and the kinds of decisions in it.
SHOW: Final = {
    "placed": ("Placed", (Kind.PLACE,)),
    "kept": ("Kept", (Kind.KEEP,)),
    "moves": ("Moves", (Kind.MOVE,)),
    "waiting": ("Jobs that wait", (Kind.WAIT,)),
    "unused": ("GPUs left out", (Kind.UNUSED,)),
}
PHASES: Final = {
    "read": "Read the state",
    "score": "Score the pairs",
    "solve": "Solve",
    "prove": "Prove",
    "explain": "Explain",
    "rivals": "Find the next best",
    "write": "Write",
}


def took_s(round: Round) -> float | None:
    """None while it runs."""
    if round.finished_at is None:
        return None
    return (round.finished_at - round.started_at).total_seconds()


def phase_ms(round: Round, phase: str) -> float:
    return 1_000.0 * float(round.seconds.get(phase, 0.0))


def gain(round: Round) -> float | None:
    """Worth against the round before it: GPUs times priority. None for the first."""
    if round.objective is None or round.previous_objective is None:
        return None
    return round.objective - round.previous_objective


def beside_the_last(rounds: QuerySet[Round]) -> QuerySet[Round]:
    """Each with `before_gpus`, the predicted throughput of the round of its kind before it."""
    before = Round.objects.filter(
        kind=OuterRef("kind"), state=Round.State.DONE, started_at__lt=OuterRef("started_at")
    ).order_by("-started_at")
    return rounds.annotate(before_gpus=Subquery(before.values("predicted_gpus")[:1]))


def more_gpus(round: Round) -> float | None:
    """Predicted throughput against the round before, of one that is `beside_the_last`, in GPUs;
    None for the first, and for one that decided nothing."""
    before: float | None = round.before_gpus  # type: ignore[attr-defined]
    if before is None or round.predicted_gpus is None:
        return None
    return round.predicted_gpus - before


def gap(round: Round) -> float | None:
    """The worth that a better plan could add at most; None for a round that did not end."""
    if round.objective is None or round.upper_bound is None:
        return None
    return max(0.0, round.upper_bound - round.objective)


def is_optimal(round: Round) -> bool:
    left = gap(round)
    return left is not None and left <= PROVEN


def price(decision: Decision) -> Price | None:
    """Of the GPU of a pair; None where nothing is known of it."""
    kept = decision.kind == Kind.KEEP
    return prices.of_kept(decision.price, decision.weight if kept else None)


def charts(kind: str) -> dict[str, dict[str, Any]]:
    """The last rounds that ended, oldest first, as options of the line chart."""
    done = Round.objects.filter(state=Round.State.DONE, **({"kind": kind} if kind else {}))
    rows = list(reversed(done.order_by("-started_at")[:CHARTED_ROUNDS]))
    x = [row.started_at.timestamp() for row in rows]
    return {
        "worth": _chart(
            x, "GPUs", 1, ("Predicted throughput", [row.predicted_gpus for row in rows])
        ),
        "jobs": _chart(
            x,
            "",
            0,
            ("Running or placed", [row.kept + row.placed + row.moves for row in rows]),
            ("Waiting", [row.waiting for row in rows]),
        ),
        "took": _chart(x, "s", 1, ("Time taken", [took_s(row) for row in rows])),
    }


def _chart(
    x: list[float], unit: str, digits: int, *lines: tuple[str, Sequence[float | None]]
) -> dict[str, Any]:
    looks = ("main", "ghost")
    series = [
        {"label": label, "values": values, "look": look, "fill": look == "main"}
        for (label, values), look in zip(lines, looks, strict=False)
    ]
    return {"x": x, "unit": unit, "digits": digits, "series": series, "range": [0, None]}


def decisions_in_sight(rows: QuerySet[Decision], user: User) -> QuerySet[Decision]:
    """Of GPUs in the pools that `user` may see, and of jobs alone that they may see."""
    if access.sees_all(user):
        return rows
    pools = access.pools_for(user, Role.VIEWER)
    jobs = jobs_in_sight(OfflineJob.objects.all(), user)
    return rows.filter(Q(gpu__node__pool__in=pools) | Q(gpu=None, job__in=jobs))


@dataclass(frozen=True)
class Group:
    """Decisions with one code."""

    code: str
    word: str
    count: int


@dataclass(frozen=True)
class Phase:
    """Where time went; `part` of the whole, 0 to 100."""

    word: str
    ms: float
    part: float


class RoundPage:
    """All that the page of one round shows."""

    def __init__(self, round: Round, user: User) -> None:
        self.round, self.user = round, user

    @cached_property
    def more_gpus(self) -> float | None:
        return more_gpus(beside_the_last(Round.objects.all()).get(pk=self.round.pk))

    took_s = property(lambda self: took_s(self.round))
    gain = property(lambda self: gain(self.round))
    gap = property(lambda self: gap(self.round))
    is_optimal = property(lambda self: is_optimal(self.round))

    @cached_property
    def decisions(self) -> QuerySet[Decision]:
        """Jobs and GPUs are read of the rows on the page alone: joined they would be looked up for
        the tens of thousands of a round, to show fifty."""
        rows = Decision.objects.filter(round=self.round).prefetch_related(
            "job", "gpu__node", "from_gpu__node"
        )
        return decisions_in_sight(rows, self.user)

    @cached_property
    def _counts(self) -> list[tuple[str, str, int]]:
        found = self.decisions.order_by().values_list("kind", "code").annotate(n=Count("pk"))
        return list(found)

    @property
    def has_sentences(self) -> bool:
        return bool(self._counts)

    @property
    def tabs(self) -> list[tuple[str, str]]:
        """(address, heading with its count)."""
        return [(key, f"{word} {self._count(kinds):,}") for key, (word, kinds) in SHOW.items()]

    def _count(self, kinds: Sequence[str]) -> int:
        return sum(count for kind, _, count in self._counts if kind in kinds)

    def first_tab(self) -> str:
        """The first one that is not empty."""
        return next((key for key, (_, kinds) in SHOW.items() if self._count(kinds)), "placed")

    def groups(self, show: str) -> list[Group]:
        """The reasons in one table, the most frequent first."""
        kinds = SHOW[show][1]
        found = [
            Group(code, WORDS[Code(code)] if code in set(Code) else code, count)
            for kind, code, count in self._counts
            if kind in kinds
        ]
        return sorted(found, key=lambda group: -group.count)

    @cached_property
    def moves(self) -> list[Eviction]:
        """The proposals of this round, with what became of them."""
        rows = Eviction.objects.filter(round=self.round).select_related(
            "placement__job", "gpu__node__pool", "to_gpu__node"
        )
        if not access.sees_all(self.user):
            rows = rows.filter(gpu__node__pool__in=access.pools_for(self.user, Role.VIEWER))
        return list(rows.order_by("pk"))

    @cached_property
    def plan(self) -> PlanPage | None:
        """Its moves as one; None when it proposed none."""
        plan = MovePlan.objects.select_related("decided_by").filter(round=self.round).first()
        if plan is None:
            return None
        hidden = Eviction.objects.filter(round=self.round).count() - len(self.moves)
        return PlanPage(plan, self.moves, hidden, self.user)

    @property
    def plan_outcome(self) -> str:
        return move_plans.outcome(self.plan.plan, timezone.now()) if self.plan else ""

    @property
    def certified_ms(self) -> float | None:
        seconds = self.round.certified_s
        return None if seconds is None else 1_000 * seconds

    @property
    def phases(self) -> list[Phase]:
        spent = {word: phase_ms(self.round, key) for key, word in PHASES.items()}
        most = max(spent.values()) or 1.0
        return [Phase(word, ms, 100 * ms / most) for word, ms in spent.items()]
