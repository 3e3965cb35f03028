"""The only writer of an eviction's state. What may follow what is in lifecycle.py.

Each change is one compare-and-set in one transaction with its audit entry; whoever comes second
gets SomebodyWasFirst, which is a normal answer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.wire.messages import Event as NodeReport
from agents.wire.names import EndReason, Origin, Phase, PlacementState
from console import doorbell
from console.accounts import access
from console.accounts.models import Role, User
from console.announce import announce
from console.audit import services as audit
from console.audit.services import Actor
from console.errors import Refused, SomebodyWasFirst
from console.evictions import lifecycle, queries, reports, targets, words
from console.evictions.lifecycle import Entry, Event, State
from console.evictions.models import Eviction, EvictionPhase, Silence
from console.inventory import nodes
from console.inventory.models import Gpu, Node, Pool
from console.policies import rules
from console.policies import services as policies
from console.policies.rules import Default, Lane
from console.scheduling import avoid
from console.scheduling.models import Placement, Round

log = logging.getLogger(__name__)

CLOCK: Final = audit.system("evictions")
# After an undo there is at least this long until the deadline decides.
AFTER_UNDO_S: Final = 60.0


# --- how an eviction begins ---------------------------------------------------------------


def propose(
    placement: Placement,
    origin: Origin,
    why: str,
    evidence: dict[str, Any],
    now: datetime,
    *,
    to_gpu: Gpu | None = None,
    round: Round | None = None,
    entry: Entry | None = None,
    cause_id: UUID | None = None,
) -> Eviction | None:
    """A wish of the console, decided as the lane of `origin` says, or as `entry` where given.

    None when a person silenced this origin for the placement, or when one is open already.
    """
    if queries.is_silenced(placement, origin, now) or queries.open_of(placement):
        return None
    entry = entry or _enter(placement.gpu.node.pool, origin, now)
    facts = {"to_gpu": to_gpu, "round": round, "cause_id": cause_id, "evidence": evidence}
    with transaction.atomic():
        eviction = _create(placement, origin, entry, why, now, **facts)
        if eviction:
            _tell(eviction, CLOCK, "eviction.propose", now, reason=why)
    return eviction


def _enter(pool: Pool, origin: Origin, now: datetime) -> Entry:
    gone = queries.gone_by_themselves(pool, origin, now)
    return lifecycle.enter(policies.lane_for(pool, origin), gone, now)


def request(
    placement: Placement,
    origin: Origin,
    actor: Actor,
    reason: str,
    now: datetime,
    *,
    cause_id: UUID | None = None,
) -> Eviction:
    """What a person, or a rule that needs no person, has decided; the time to undo runs.

    Returns the open one when the node was told already, or when the same was decided already.
    Takes the place of any other; a job that was to be cancelled still is. Raises Refused when the
    placement has ended.
    """
    if placement.state == PlacementState.ENDED:
        raise Refused(f"{placement} has ended already, so there is nothing to evict.")
    lane = policies.lane_for(placement.gpu.node.pool, origin)
    with transaction.atomic():
        before = queries.open_of(placement)
        if before and lifecycle.serves(before.state, before.origin, origin):
            return _join(before, origin, actor, reason, now)
        facts: dict[str, Any] = {"reason": reason, "decided_by": actor.user, "decided_at": now}
        facts["cancels"] = _make_room(before, actor, now) or origin is Origin.CANCEL
        entry = lifecycle.decided(lane, now)
        eviction = _create(placement, origin, entry, reason, now, cause_id=cause_id, **facts)
        if eviction is None:
            return _join_first(placement, origin, actor, reason, now)
        _tell(eviction, actor, "eviction.request", now, reason=reason)
        doorbell.ring(doorbell.TICK_EVICTIONS)
    return eviction


def _join_first(
    placement: Placement, origin: Origin, actor: Actor, reason: str, now: datetime
) -> Eviction:
    """Somebody was first by a moment; when they asked for the same, that is all there is to do."""
    first = queries.open_of(placement)
    if first is None or not lifecycle.serves(first.state, first.origin, origin):
        raise SomebodyWasFirst(f"Another eviction of {placement} began just now.")
    return _join(first, origin, actor, reason, now)


def _join(eviction: Eviction, origin: Origin, actor: Actor, reason: str, now: datetime) -> Eviction:
    """The open eviction does what is asked for; a job that is cancelled does not come back."""
    if origin is Origin.CANCEL and not eviction.cancels:
        same = Eviction.objects.filter(pk=eviction.pk, state__in=lifecycle.OPEN)
        if not same.update(cancels=True):
            raise SomebodyWasFirst(f"{eviction} ended just now; cancel again.")
        eviction.cancels = True
        _tell(eviction, actor, "eviction.cancel", now, reason=reason)
    return eviction


def _create(
    placement: Placement, origin: Origin, entry: Entry, why: str, now: datetime, **facts: Any
) -> Eviction | None:
    version = policies.version_for(placement.gpu.node.pool)
    ruled_by = {"policy": str(version), "policy_slug": version.policy.slug}
    values: dict[str, Any] = {
        "placement": placement,
        "gpu": placement.gpu,
        "origin": origin,
        "state": entry.state,
        "state_since": now,
        "proposed_at": now,
        "deadline_at": entry.deadline_at,
        "default": entry.default or "",
        "dispatch_at": entry.dispatch_at,
        "why": why[:300],
        "evidence": facts.pop("evidence", {}) | ruled_by,
        "grace_s": rules.parse(version.body).grace_s,
        "expected_lost_work_s": placement.unsaved_work_s,
    }
    try:
        with transaction.atomic():
            return Eviction.objects.create(**values | facts)
    except IntegrityError:  # one is open: the constraint saw what our look before could not
        return None


def _make_room(before: Eviction | None, actor: Actor, now: datetime) -> bool:
    """Supersede the open eviction, if there is one; whether it was to cancel the job."""
    if before is None:
        return False
    _move(before, Event.SUPERSEDE, actor, now, ended_at=now)
    return before.cancels


# --- what people decide -------------------------------------------------------------------


def approve(eviction_id: UUID, user: User, reason: str, now: datetime) -> Eviction:
    """Evict, once the time to undo is over. Raises PermissionDenied, Refused, SomebodyWasFirst."""
    eviction = load_for_approver(eviction_id, user)
    _still(eviction, (State.PROPOSED,), now)
    _require_fresh(eviction)
    lane = _lane(eviction)
    with transaction.atomic():
        _move(
            eviction,
            Event.APPROVE,
            audit.person(user),
            now,
            reason=reason,
            decided_by=user,
            decided_at=now,
            dispatch_at=now + timedelta(seconds=lane.undo_s),
        )
        doorbell.ring(doorbell.TICK_EVICTIONS)
    return eviction


def keep(eviction_id: UUID, user: User, reason: str, now: datetime) -> Eviction:
    """Keep the job running, and silence this origin for it. Raises as `approve` does."""
    eviction = load_for_approver(eviction_id, user)
    _still(eviction, lifecycle.UNDECIDED, now)
    with transaction.atomic():
        _reject(eviction, user, reason, now)
        until = now + timedelta(seconds=_lane(eviction).silent_s)
        Silence.objects.create(placement=eviction.placement, origin=eviction.origin, until=until)
    return eviction


def undo(eviction_id: UUID, user: User, now: datetime) -> Eviction:
    """Take an approval back before it goes out: a proposal waits again, a wish is withdrawn.

    Raises PermissionDenied, and IllegalTransition once the node was told.
    """
    eviction = load_for_approver(eviction_id, user)
    lifecycle.next_state(
        State(eviction.state), Event.UNDO, str(eviction), words.story(eviction, now)
    )
    with transaction.atomic():
        if eviction.deadline_at is None:
            _reject(eviction, user, "Withdrawn", now)
            return eviction
        _move(
            eviction,
            Event.UNDO,
            audit.person(user),
            now,
            deadline_at=max(eviction.deadline_at, now + timedelta(seconds=AFTER_UNDO_S)),
            dispatch_at=None,
            decided_by=None,
            decided_at=None,
        )
    return eviction


def review(eviction_ids: Iterable[UUID], user: User, reason: str, now: datetime) -> int:
    """Mark as looked at, after the fact; how many were still waiting for it."""
    done = 0
    with transaction.atomic():
        for eviction_id in eviction_ids:
            done += _review(load_for_approver(eviction_id, user), user, reason, now)
    return done


def _review(eviction: Eviction, user: User, reason: str, now: datetime) -> bool:
    waiting = Eviction.objects.filter(pk=eviction.pk, review=Eviction.Review.WANTED)
    changed = waiting.update(review=Eviction.Review.DONE, reviewed_by=user, reviewed_at=now)
    if changed:
        _tell(eviction, audit.person(user), "eviction.review", now, reason=reason)
    return bool(changed)


def _reject(eviction: Eviction, user: User, reason: str, now: datetime) -> None:
    decision: dict[str, Any] = {"reason": reason, "decided_by": user, "decided_at": now}
    _move(eviction, Event.KEEP, audit.person(user), now, ended_at=now, **decision)


def load_for_approver(eviction_id: UUID, user: User) -> Eviction:
    """Raises PermissionDenied unless `user` may decide in the pool of the GPU."""
    eviction = queries.load(eviction_id)
    access.require(user, Role.APPROVER, eviction.gpu.node.pool)
    return eviction


def _still(eviction: Eviction, states: Collection[str], now: datetime) -> None:
    if eviction.state not in states:
        raise SomebodyWasFirst(words.story(eviction, now))


def _require_fresh(eviction: Eviction) -> None:
    node = eviction.gpu.node
    if node.state in (Node.State.STALE, Node.State.LOST):
        raise Refused(
            f"{node} does not answer, so what you see of it is old. "
            "Decide when it is back, or keep the job running."
        )


def _lane(eviction: Eviction) -> Lane:
    return policies.lane_for(eviction.gpu.node.pool, Origin(eviction.origin))


# --- what the clock does ------------------------------------------------------------------


def tick(now: datetime) -> int:
    """Do all that is due: dispatch, defaults, stops that are stuck. How many rows changed."""
    return sum(_tick_one(eviction, now) for eviction in queries.due_or_under_way(now))


def _tick_one(eviction: Eviction, now: datetime) -> bool:
    try:
        with transaction.atomic():
            if eviction.placement.state == PlacementState.ENDED:
                return _end(eviction, CLOCK, eviction.placement.end_reason, {}, now)
            if why := _why_target_closed(eviction):
                return _withdraw(eviction, why, now)
            event = lifecycle.due(_timing(eviction, now), now)
            if event:
                _BY_CLOCK[event](eviction, now)
            return event is not None
    except SomebodyWasFirst as error:
        log.info("%s", error)
        return False


def _why_target_closed(eviction: Eviction) -> str:
    """Of a move that nobody has told the node yet; empty while it still makes sense."""
    if eviction.state not in lifecycle.UNDECIDED or eviction.to_gpu is None:
        return ""
    return targets.why_closed(eviction.to_gpu)


def _withdraw(eviction: Eviction, why: str, now: datetime) -> bool:
    said = f"{eviction.to_gpu} takes it no more: {why}"[:300]
    evidence = eviction.evidence | {"withdrawn": said}
    _move(eviction, Event.SUPERSEDE, CLOCK, now, said=said, ended_at=now, evidence=evidence)
    return True


def _timing(eviction: Eviction, now: datetime) -> lifecycle.Timing:
    return lifecycle.Timing(
        state=State(eviction.state),
        state_since=eviction.state_since,
        deadline_at=eviction.deadline_at,
        default=Default(eviction.default) if eviction.default else None,
        dispatch_at=eviction.dispatch_at,
        longest_stop_s=_longest_stop_s(eviction),
        node_answers=eviction.gpu.node.state == Node.State.CONNECTED,
        within_budget=_may_run_by_itself(eviction, now),
    )


def _may_run_by_itself(eviction: Eviction, now: datetime) -> bool:
    if eviction.state != State.PROPOSED or eviction.default != Default.RUN:
        return True
    gone = queries.gone_by_themselves(eviction.gpu.node.pool, Origin(eviction.origin), now)
    return lifecycle.within_budget(_lane(eviction), gone)


def _longest_stop_s(eviction: Eviction) -> float:
    body = policies.rules_for(eviction.gpu.node.pool)
    return rules.longest_stop_s(body, eviction.grace_s)


def _dispatch(eviction: Eviction, now: datetime) -> None:
    _move(eviction, Event.DISPATCH, CLOCK, now)
    nodes.touch([eviction.gpu.node_id], now)


def _run_by_default(eviction: Eviction, now: datetime) -> None:
    _move(eviction, Event.RUN_BY_DEFAULT, CLOCK, now, decided_at=now, dispatch_at=now)
    _dispatch(eviction, now)


def _drop_by_default(eviction: Eviction, now: datetime) -> None:
    _move(eviction, Event.DROP_BY_DEFAULT, CLOCK, now, ended_at=now)


def _stuck(eviction: Eviction, now: datetime) -> None:
    _move(eviction, Event.STUCK, CLOCK, now, said="it did not stop within its time")


def _fail(eviction: Eviction, now: datetime, actor: Actor = CLOCK, said: str = "") -> None:
    _move(eviction, Event.FAIL, actor, now, said=said, ended_at=now)
    why = f"{eviction.placement.job} could not be stopped; eviction {eviction.pk}"
    if not eviction.gpu.disabled:
        nodes.disable_gpu(eviction.gpu, CLOCK, why, now)


_BY_CLOCK: Final = {
    Event.DISPATCH: _dispatch,
    Event.RUN_BY_DEFAULT: _run_by_default,
    Event.DROP_BY_DEFAULT: _drop_by_default,
    Event.STUCK: _stuck,
    Event.FAIL: _fail,
}


# --- what the node reports ----------------------------------------------------------------
# Reports may come twice, late, and after the end of what they tell; none of that is an error.


def agent_started(node: Node, report: NodeReport, now: datetime) -> Eviction | None:
    """The node began a stop by itself. None when it names a placement that is not its own.

    An open eviction of the placement is superseded; one with the same id is escalated. Raises
    ValueError for an origin that is not the node's to decide.
    """
    placement = queries.placement_of(node, report)
    if placement is None or report.eviction_id is None:
        return None
    actor, origin = audit.agent(node.name), Origin(report.data.get("origin", Origin.OVERLOAD))
    with transaction.atomic():
        if known := queries.find(UUID(report.eviction_id)):
            return _escalate(known, node, origin, actor, now)
        if origin not in lifecycle.BY_NODE:
            raise ValueError(f"no node takes a job off by itself for {origin}")
        cancels = _make_room(queries.open_of(placement), actor, now)
        return _begun_by_agent(placement, origin, report, actor, now, cancels=cancels)


def _begun_by_agent(
    placement: Placement,
    origin: Origin,
    report: NodeReport,
    actor: Actor,
    now: datetime,
    *,
    cancels: bool,
) -> Eviction | None:
    eviction = _create(
        placement,
        origin,
        Entry(State.STOPPING),
        reports.why(report),
        now,
        id=UUID(report.eviction_id),
        proposed_at=reports.moment(report, now),
        evidence=reports.evidence(report),
        reaction_ms=report.data.get("reaction_ms"),
        by_node=True,
        cancels=cancels,
        review=Eviction.Review.WANTED
        if lifecycle.wants_review(origin)
        else Eviction.Review.NOT_NEEDED,
    )
    if eviction:
        _tell(eviction, actor, "eviction.begin", now, reason=eviction.why, origin=origin)
    return eviction


def _escalate(
    eviction: Eviction, node: Node, origin: Origin, actor: Actor, now: datetime
) -> Eviction | None:
    """A stop that is under way becomes more urgent; it keeps its id."""
    if eviction.gpu.node_id != node.pk:
        return None
    was = Origin(eviction.origin)
    if not lifecycle.is_more_urgent(origin, was):
        return eviction
    same = Eviction.objects.filter(pk=eviction.pk, state__in=lifecycle.UNDER_WAY, origin=was)
    if same.update(origin=origin, review=Eviction.Review.WANTED):
        eviction.origin, eviction.review = origin, Eviction.Review.WANTED
        _tell(eviction, actor, "eviction.escalate", now, reason=f"was {was}")
    return eviction


def agent_phase(node: Node, report: NodeReport, now: datetime) -> Eviction | None:
    """A phase of the stop was reached. None when the node does not know this eviction."""
    eviction = queries.eviction_of(node, report)
    if eviction is None:
        return None
    phase = Phase(report.data["phase"])
    with transaction.atomic():
        EvictionPhase.objects.get_or_create(
            eviction=eviction, phase=phase, defaults={"at": reports.moment(report, now)}
        )
        held = eviction.placement.memory_bytes
        facts = reports.phase_facts(report, eviction.phase, eviction.freed_bytes, held)
        event = lifecycle.event_of(phase, State(eviction.state))
        if (State(eviction.state), event) in lifecycle.TRANSITIONS:
            _move(eviction, event, audit.agent(node.name), now, **facts)
        else:
            _note(eviction, **facts)
    return eviction


def agent_proposed(node: Node, report: NodeReport, now: datetime) -> Eviction | None:
    """The node saw an SLO missed at lowered duty; the lane `slo` says who decides.

    None for a placement that is not its own, and for the same reasons as `propose`.
    """
    placement = queries.placement_of(node, report)
    if placement is None:
        return None
    return propose(placement, Origin.SLO, reports.why(report), reports.evidence(report), now)


def agent_stuck(node: Node, report: NodeReport, now: datetime) -> Eviction | None:
    """The node says that the stop does not move. None when that is no longer so."""
    eviction = queries.eviction_of(node, report)
    if eviction is None or eviction.state != State.STOPPING:
        return None
    with transaction.atomic():
        _move(eviction, Event.STUCK, audit.agent(node.name), now, said=reports.why(report))
    return eviction


def agent_failed(node: Node, report: NodeReport, now: datetime) -> Eviction | None:
    """The node gave up on a stop; its GPU is taken out of use. None when it ended otherwise."""
    eviction = queries.eviction_of(node, report)
    if eviction is None or eviction.state not in (State.STOPPING, State.STUCK):
        return None
    with transaction.atomic():
        actor, why = audit.agent(node.name), reports.why(report)
        if eviction.state == State.STOPPING:
            _move(eviction, Event.STUCK, actor, now, said=why)
        _fail(eviction, now, actor, why)
    return eviction


def placement_ended(placement: Placement, report: NodeReport | None, now: datetime) -> None:
    """Close the open eviction of a placement that ended, for whatever reason."""
    eviction = queries.open_of(placement)
    if eviction is None:
        return
    data = report.data if report else {}
    reason = str(data.get("reason") or placement.end_reason or EndReason.LOST)
    actor = audit.agent(eviction.gpu.node.name) if report else CLOCK
    with transaction.atomic():
        _end(eviction, actor, reason, data, now)


def _end(
    eviction: Eviction, actor: Actor, reason: str, data: dict[str, Any], now: datetime
) -> bool:
    if eviction.state == State.STUCK:
        _move(eviction, Event.GONE, actor, now)
    facts: dict[str, Any] = {"ended_at": now}
    if eviction.state not in lifecycle.UNDECIDED:
        facts["finished_first"] = reason == EndReason.FINISHED
        if data.get("lost_work_s") is not None:
            facts["lost_work_s"] = data["lost_work_s"]
    _move(eviction, Event.JOB_ENDED, actor, now, said=f"the job ended: {reason}", **facts)
    went_on_by_itself = facts.get("finished_first") or eviction.restarts
    if eviction.state == State.COMPLETED and not went_on_by_itself:
        avoid.after_eviction(eviction.placement, Origin(eviction.origin), eviction.why, now)
    return True


# --- one change ---------------------------------------------------------------------------


def _move(
    eviction: Eviction,
    event: Event,
    actor: Actor,
    now: datetime,
    *,
    said: str = "",
    **fields: Any,
) -> None:
    """Compare-and-set with its audit entry. Raises IllegalTransition, SomebodyWasFirst."""
    before = State(eviction.state)
    after = _check(eviction, event, now)
    if after != before:
        fields |= {"state": after, "state_since": now}
    if not Eviction.objects.filter(pk=eviction.pk, state=before).update(**fields):
        raise SomebodyWasFirst(words.story(queries.load(eviction.pk), now))
    for name, value in fields.items():
        setattr(eviction, name, value)
    if after != before:
        reason = said or str(fields.get("reason", ""))
        _tell(eviction, actor, f"eviction.{event}", now, reason=reason, before=before, after=after)
    else:
        announce("evictions", id=eviction.pk, state=after, phase=eviction.phase)


def _check(eviction: Eviction, event: Event, now: datetime) -> State:
    story = words.story(eviction, now)
    return lifecycle.next_state(State(eviction.state), event, str(eviction), story)


def _note(eviction: Eviction, **fields: Any) -> None:
    """Facts that come after the end; the state stays."""
    Eviction.objects.filter(pk=eviction.pk).update(**fields)


def _tell(
    eviction: Eviction, actor: Actor, action: str, now: datetime, *, reason: str, **data: Any
) -> None:
    cause_id = eviction.cause_id or eviction.pk
    audit.record(actor, action, eviction, now=now, reason=reason, cause_id=cause_id, **data)
    announce("evictions", id=eviction.pk, state=eviction.state, phase=eviction.phase)
