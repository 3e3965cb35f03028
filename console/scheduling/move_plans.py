"""The moves of a round as one plan: proposed, decided by a person as one, settled by the clock.

A move is an eviction of origin `move`, which may be decided by itself as well; the plan decides
those that still wait. The only writer of a plan's state; what may follow: plan_lifecycle.py.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction

from agents.wire.names import Origin, PlacementState
from console.accounts import access
from console.accounts.models import Role, User
from console.announce import announce
from console.audit.services import Actor, person, record, system
from console.errors import Invalid, SomebodyWasFirst
from console.evictions import lifecycle, words
from console.evictions import queries as eviction_queries
from console.evictions import services as evictions
from console.evictions.lifecycle import Entry
from console.evictions.models import Eviction, Silence
from console.figures import age
from console.inventory.models import Gpu, Pool
from console.policies import services as policies
from console.policies.rules import Default, Mode, PolicyBody
from console.scheduling.models import MovePlan, Placement, Round
from console.scheduling.plan import Move
from console.scheduling.plan_lifecycle import PlanEvent, PlanState, next_plan_state, settled_by

log = logging.getLogger(__name__)

CLOCK: Final = system("evictions")


# --- how a plan begins --------------------------------------------------------------------


class _Ready(NamedTuple):
    move: Move
    placement: Placement
    target: Gpu


def propose(round: Round, moves: Sequence[Move], now: datetime) -> int:
    """How many moves the plan of `round` has; chains that became impossible are left out.

    Call it in the round's transaction.
    """
    ready = _ready(moves, now)
    if not ready:
        return 0
    entry = _entry(Counter(one.placement.gpu.node.pool for one in ready), now)
    try:
        with transaction.atomic():
            for one in ready:
                _propose(round, one, entry, now)
    except SomebodyWasFirst:  # the next round looks again
        return 0
    MovePlan.objects.create(
        round=round,
        state=PlanState.PROPOSED if entry.deadline_at else PlanState.APPROVED,
        state_since=now,
        proposed_at=now,
        deadline_at=entry.deadline_at,
        default=entry.default or "",
    )
    return len(ready)


def _propose(round: Round, one: _Ready, entry: Entry, now: datetime) -> None:
    move, placement, target = one
    evidence = {**move.evidence, "chain": move.chain}
    if not evictions.propose(
        placement, Origin.MOVE, move.why, evidence, now, to_gpu=target, round=round, entry=entry
    ):
        raise SomebodyWasFirst(f"Another eviction of {placement} began just now.")


def _ready(moves: Sequence[Move], now: datetime) -> list[_Ready]:
    """Those that may still be proposed, with all of their chain."""
    placements = _movable([move.placement_id for move in moves], now)
    targets = Gpu.objects.in_bulk([move.to_gpu_id for move in moves])
    broken = {
        move.chain
        for move in moves
        if move.placement_id not in placements or move.to_gpu_id not in targets
    }
    return [
        _Ready(move, placements[move.placement_id], targets[move.to_gpu_id])
        for move in moves
        if move.chain not in broken
    ]


def _movable(ids: Collection[UUID], now: datetime) -> dict[UUID, Placement]:
    """Those that run, with nothing open, and nobody who chose to keep them running."""
    silenced = Silence.objects.filter(origin=Origin.MOVE, until__gt=now, placement__in=ids)
    taken = Eviction.objects.filter(state__in=Eviction.OPEN, placement__in=ids)
    rows = Placement.objects.filter(pk__in=ids, state=PlacementState.RUNNING)
    rows = rows.exclude(pk__in=silenced.values("placement"))
    rows = rows.exclude(pk__in=taken.values("placement"))
    related = rows.select_related("job", "gpu__node__pool__policy__current__policy")
    return {placement.pk: placement for placement in related}


def _entry(moves: Mapping[Pool, int], now: datetime) -> Entry:
    """Decided already where every pool lets so many go by themselves, else it waits for a person.

    The shortest deadline of the pools holds for all; it runs by default only where all say so.
    """
    bodies = {pool: policies.rules_for(pool) for pool in moves}
    lanes = [body.lane(Origin.MOVE) for body in bodies.values()]
    if all(_go_by_themselves(pool, bodies[pool], count, now) for pool, count in moves.items()):
        return lifecycle.decided(max(lanes, key=lambda lane: lane.undo_s), now)
    runs = all(lane.default is Default.RUN for lane in lanes)
    deadline = now + timedelta(seconds=min(lane.deadline_s for lane in lanes))
    return Entry(lifecycle.State.PROPOSED, deadline, Default.RUN if runs else Default.KEEP)


def _go_by_themselves(pool: Pool, body: PolicyBody, count: int, now: datetime) -> bool:
    lane = body.lane(Origin.MOVE)
    if lane.mode is not Mode.AUTOMATIC or count > body.moves_by_itself:
        return False
    gone = eviction_queries.gone_by_themselves(pool, Origin.MOVE, now)
    return lifecycle.within_budget(lane, gone + count - 1)


# --- what people decide -------------------------------------------------------------------


def approve(
    round_id: int, user: User, reason: str, now: datetime, struck: Iterable[UUID] = ()
) -> MovePlan:
    """All moves that wait go, but for the `struck` ones and what is chained to them.

    Raises PermissionDenied, Refused when a node does not answer, SomebodyWasFirst, and Invalid
    when nothing would be left.
    """
    plan, moves = _load(round_id, user, now)
    left_out = chained(moves, frozenset(struck))
    going = [move for move in moves if move.pk not in left_out]
    if not going:
        raise Invalid("Nothing is left of the plan: reject it instead.")
    with transaction.atomic():
        _decide(plan, PlanEvent.APPROVE, user, reason, now, struck=len(left_out))
        for move in moves:
            decide = evictions.keep if move.pk in left_out else evictions.approve
            _unless_decided(decide, move, user, reason, now)
    return plan


def reject(round_id: int, user: User, reason: str, now: datetime) -> MovePlan:
    """All jobs whose move waits stay where they are. Raises as `approve` does."""
    plan, moves = _load(round_id, user, now)
    with transaction.atomic():
        _decide(plan, PlanEvent.REJECT, user, reason, now)
        for move in moves:
            _unless_decided(evictions.keep, move, user, reason, now)
    return plan


def chained(moves: Iterable[Eviction], struck: frozenset[UUID]) -> frozenset[UUID]:
    """`struck`, and the moves that only make sense together with one of them."""
    rows = list(moves)
    chains = {chain_of(move) for move in rows if move.pk in struck}
    return frozenset(move.pk for move in rows if chain_of(move) in chains)


def chain_of(move: Eviction) -> object:
    """A move without a chain is one by itself."""
    return move.evidence.get("chain", move.pk)


def _load(round_id: int, user: User, now: datetime) -> tuple[MovePlan, list[Eviction]]:
    """The plan and its moves that wait.

    Raises PermissionDenied unless `user` may decide all, SomebodyWasFirst when it is decided.
    """
    plan = MovePlan.objects.select_related("round", "decided_by").get(pk=round_id)
    rows = Eviction.objects.filter(round=round_id, origin=Origin.MOVE)
    moves = list(rows.select_related(*eviction_queries.WITH_ALL).order_by("pk"))
    for pool in {move.gpu.node.pool for move in moves}:
        access.require(user, Role.APPROVER, pool)
    if plan.state != PlanState.PROPOSED:
        raise SomebodyWasFirst(story(plan, now))
    return plan, [move for move in moves if move.state == lifecycle.State.PROPOSED]


def _unless_decided(
    decide: Callable[[UUID, User, str, datetime], object],
    move: Eviction,
    user: User,
    reason: str,
    now: datetime,
) -> None:
    """What somebody decided by itself a moment ago stays as they decided."""
    try:
        with transaction.atomic():
            decide(move.pk, user, reason, now)
    except SomebodyWasFirst as first:
        log.info("%s", first)


def _decide(
    plan: MovePlan, event: PlanEvent, user: User, reason: str, now: datetime, struck: int = 0
) -> None:
    _step(plan, event, person(user), now, decided_by=user, reason=reason, struck=struck)


# --- what the clock does ------------------------------------------------------------------


def settle(now: datetime) -> int:
    """Close the plans whose moves were all decided one by one, or by the deadline; how many."""
    return sum(_settle(plan, now) for plan in MovePlan.objects.filter(state=PlanState.PROPOSED))


def _settle(plan: MovePlan, now: datetime) -> bool:
    moves = Eviction.objects.filter(round=plan.pk, origin=Origin.MOVE)
    rows = moves.values_list("state", "decided_by")
    event = settled_by([(state, decided_by is not None) for state, decided_by in rows])
    if event is None:
        return False
    try:
        _step(plan, event, CLOCK, now)
    except SomebodyWasFirst:
        return False
    return True


# --- one change ---------------------------------------------------------------------------


def _step(plan: MovePlan, event: PlanEvent, actor: Actor, now: datetime, **fields: Any) -> None:
    """Compare-and-set with its audit entry. Raises SomebodyWasFirst."""
    before = PlanState(plan.state)
    after = next_plan_state(before, event, str(plan), story(plan, now))
    fields |= {"state": after, "state_since": now}
    if not MovePlan.objects.filter(pk=plan.pk, state=before).update(**fields):
        fresh = MovePlan.objects.select_related("decided_by").get(pk=plan.pk)
        raise SomebodyWasFirst(story(fresh, now))
    for name, value in fields.items():
        setattr(plan, name, value)
    reason, struck = str(fields.get("reason", "")), fields.get("struck", 0)
    record(actor, f"plan.{event}", plan, now=now, reason=reason, struck=struck)
    announce("rounds", id=plan.pk)


_OUTCOMES: Final = {
    PlanState.PROPOSED: "It has waited for a decision since {ago}.",
    PlanState.APPROVED: "{who} approved it {ago}.",
    PlanState.REJECTED: "{who} rejected it {ago}.",
    PlanState.EXPIRED: "Nobody decided before the deadline, so it was dropped {ago}.",
    PlanState.SETTLED: "Its moves were decided one by one, or overtaken, by {ago}.",
}


def outcome(plan: MovePlan, now: datetime) -> str:
    """How it stands, who did it and when: `M. Ortega approved it 3 s ago.`"""
    past_s = (now - plan.state_since).total_seconds()
    who = words.name(plan.decided_by) if plan.decided_by else "The policy"
    ago = age(past_s) if past_s >= 1 else "just now"
    return _OUTCOMES[PlanState(plan.state)].format(who=who, ago=ago)


def story(plan: MovePlan, now: datetime) -> str:
    """The same for whoever came second."""
    first = "Somebody was first. " if plan.decided_by else ""
    return f"{first}{outcome(plan, now)}"
