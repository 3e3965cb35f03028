"""Everything that the page of one eviction says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from agents.wire.names import PHASES, EventKind, Origin, Phase
from console.accounts import access
from console.accounts.models import Role, User
from console.audit.models import Entry
from console.evictions import lifecycle, queries, stops, words
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.evictions.stops import Expectation
from console.inventory.models import Gpu, Node
from console.looks import Look
from console.policies import services as policies
from console.policies.rules import Default, Lane, Mode
from console.scheduling.models import Placement
from console.telemetry.hub import hub
from console.telemetry.latest import LiveGpu
from console.telemetry.models import NodeEvent
from console.workloads.models import OnlineService

# Reasons that a person picks; a note may follow.
REASONS: Final = (
    ("On the evidence", "On the evidence"),
    ("Incident", "Incident"),
    ("Planned work", "Planned work"),
    ("Owner asked", "Owner asked"),
    ("Trial", "Trial"),
)
REVIEW_REASONS: Final = (
    ("As it should be", "As it should be"),
    ("Rule too strict", "Rule too strict"),
    ("Job does not fit here", "Job does not fit here"),
    ("Hardware suspect", "Hardware suspect"),
)
# What happened on the GPU around an eviction.
AROUND: Final = timedelta(minutes=2)
STORY_ROWS: Final = 30
_TOLD: Final = (EventKind.TRANSITION, EventKind.FROZEN, EventKind.THAWED)


@dataclass(frozen=True)
class Moment:
    """One line of the story. `actor` is who did it; `text` is plain."""

    at: datetime
    actor: str
    text: str
    reason: str = ""


@dataclass(frozen=True)
class Opened:
    """One eviction with what a person needs to decide it and to follow it."""

    eviction: Eviction
    lane: Lane
    may_decide: bool
    why_closed: str
    reached: dict[Phase, float]
    stage_words: dict[str, str]
    usual: Expectation
    services: Sequence[OnlineService]
    live: LiveGpu | None
    evicted_before: int
    story: Sequence[Moment]

    @property
    def title(self) -> str:
        return words.title(self.eviction)

    @property
    def verb(self) -> str:
        """What approving it does."""
        if self.eviction.restarts:
            return "Restart"
        return "Move" if self.eviction.to_gpu_id else "Evict"

    @property
    def is_open(self) -> bool:
        return self.eviction.state in lifecycle.OPEN

    @property
    def is_under_way(self) -> bool:
        return self.eviction.state in lifecycle.UNDER_WAY

    @property
    def is_by_hand(self) -> bool:
        return self.eviction.origin == Origin.POLICY and not self.eviction.by_node

    @property
    def is_of_node(self) -> bool:
        """Whether the node decided it by itself."""
        return self.eviction.by_node or self.eviction.review != Eviction.Review.NOT_NEEDED

    @property
    def look(self) -> Look:
        return words.look(self.eviction)

    @property
    def phase_now(self) -> str:
        """The phase that is being worked on, while the node stops the job."""
        if not self.is_under_way:
            return ""
        last = max((PHASES.index(phase) for phase in self.reached), default=-1)
        return PHASES[last + 1].value if last + 1 < len(PHASES) else ""

    @property
    def progress(self) -> str:
        return words.progress(self.eviction)

    @property
    def outcome(self) -> str:
        return words.outcome(self.eviction)

    @property
    def who(self) -> str:
        return words.who(self.eviction)

    @property
    def service(self) -> OnlineService | None:
        """The service whose latency the eviction is about: the strictest on the GPU."""
        return next(iter(self.services), None)


def read(eviction: Eviction, user: User) -> Opened:
    """The page of `eviction` as `user` may see and use it."""
    phases = list(eviction.phases.all())
    reached = stops.took(eviction, phases)
    usual = stops.expected(eviction.placement.job.name)
    is_open = eviction.state in lifecycle.OPEN
    return Opened(
        eviction=eviction,
        lane=policies.lane_for(eviction.gpu.node.pool, Origin(eviction.origin)),
        may_decide=access.allowed(user, Role.APPROVER, eviction.gpu.node.pool),
        why_closed=why_closed(eviction, user),
        reached=reached,
        stage_words=stops.stage_words(reached, usual.seconds, is_open),
        usual=usual,
        services=services_on(eviction.gpu_id),
        live=hub.live(eviction.gpu_id),
        evicted_before=_evicted_before(eviction),
        story=_story(eviction),
    )


def why_closed(eviction: Eviction, user: User) -> str:
    """Why `user` cannot evict now; empty when they can."""
    pool, node = eviction.gpu.node.pool, eviction.gpu.node
    if not access.allowed(user, Role.APPROVER, pool):
        return access.missing(Role.APPROVER, pool)
    if node.state in (Node.State.STALE, Node.State.LOST):
        return f"{node} does not answer, so its data is old"
    return ""


def services_on(gpu_id: int) -> list[OnlineService]:
    """The online services on a GPU, the strictest first."""
    on_gpu = OnlineService.objects.filter(instances__gpu=gpu_id).distinct()
    return list(on_gpu.order_by("tier", "name"))


def _evicted_before(eviction: Eviction) -> int:
    day = eviction.proposed_at - timedelta(days=1)
    return Eviction.objects.filter(
        placement__job=eviction.placement.job,
        state=State.COMPLETED,
        finished_first=False,
        ended_at__gt=day,
        ended_at__lt=eviction.proposed_at,
    ).count()


def _story(eviction: Eviction) -> list[Moment]:
    """What people, the console and the node did, oldest first."""
    told = [*_entries(eviction), *_events(eviction)]
    return sorted(told, key=lambda moment: moment.at)[-STORY_ROWS:]


def _entries(eviction: Eviction) -> list[Moment]:
    cause = eviction.cause_id or eviction.pk
    entries = Entry.objects.filter(cause_id=cause).select_related("user").order_by("pk")
    return [
        Moment(entry.at, _actor(entry), _ACTIONS.get(entry.action, entry.action), entry.reason)
        for entry in entries
    ]


def _actor(entry: Entry) -> str:
    kind, _, name = entry.actor.partition(":")
    if entry.user:
        return words.name(entry.user)
    return "The console" if kind == "system" else name


_ACTIONS: Final = {
    "eviction.propose": "proposed it",
    "eviction.request": "asked for it",
    "eviction.approve": "approved it",
    "eviction.keep": "kept the job running",
    "eviction.undo": "took the approval back",
    "eviction.run_by_default": "let it run: nobody decided before the deadline",
    "eviction.drop_by_default": "dropped it: nobody decided before the deadline",
    "eviction.dispatch": "sent it to the node",
    "eviction.phase": "took it and began to stop the job",
    "eviction.begin": "began to stop the job by itself",
    "eviction.escalate": "made it an emergency",
    "eviction.stuck": "called it stuck",
    "eviction.gone": "saw the job gone after all",
    "eviction.fail": "gave the stop up and took the GPU out of use",
    "eviction.supersede": "put something else in its place, or withdrew it",
    "eviction.cancel": "cancelled the job as well",
    "eviction.job_ended": "closed it: the job has ended",
    "eviction.review": "looked at it after the fact",
}


def _events(eviction: Eviction) -> list[Moment]:
    until = (eviction.ended_at or eviction.proposed_at) + AROUND
    rows = NodeEvent.objects.filter(
        gpu=eviction.gpu_id,
        kind__in=_TOLD,
        at__range=(eviction.proposed_at - AROUND, until),
    ).order_by("-at")[:STORY_ROWS]
    node = str(eviction.gpu.node)
    return [Moment(row.at, node, _event_words(row.kind, row.data)) for row in rows]


def _event_words(kind: str, data: dict[str, Any]) -> str:
    why = f": {data['why']}" if data.get("why") else ""
    if kind == EventKind.TRANSITION:
        return f"{data.get('from', '?')} → {data.get('to', '?')}{why}"
    return f"{'froze' if kind == EventKind.FROZEN else 'thawed'} the offline side{why}"


def budget_left(eviction: Eviction, lane: Lane, now: datetime) -> tuple[int, int] | None:
    """(left, whole) of this origin that may go by themselves this hour; None: no such limit."""
    asks_always = lane.mode is Mode.PERSON and lane.default is Default.KEEP
    if lane.budget_per_hour is None or asks_always:
        return None
    gone = queries.gone_by_themselves(eviction.gpu.node.pool, Origin(eviction.origin), now)
    return max(0, lane.budget_per_hour - gone), lane.budget_per_hour


def asking(gpu: Gpu, placement: Placement | None) -> dict[str, Any]:
    """The dialog in which a person asks for an eviction: what it will do, before it is done."""
    lane = policies.lane_for(gpu.node.pool, Origin.POLICY)
    return {
        "gpu": gpu,
        "placement": placement,
        "undo_s": lane.undo_s,
        "reasons": REASONS[1:],
        "services": services_on(gpu.pk),
    }


def reviewing(group: Sequence[Eviction], user: User) -> dict[str, Any]:
    """A group of emergencies that wants a look after the fact."""
    pool = group[0].gpu.node.pool
    may = access.allowed(user, Role.APPROVER, pool)
    return {
        "group": group,
        "may_review": may,
        "why_closed": "" if may else access.missing(Role.APPROVER, pool),
        "review_reasons": REVIEW_REASONS,
    }
