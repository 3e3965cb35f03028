"""Which predictor is in force. Only this module writes the state of a version.

Each change is one compare-and-set with its audit entry; who comes second gets SomebodyWasFirst.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import Max

from console.accounts import access
from console.accounts.models import Role, User
from console.announce import announce
from console.audit.services import Actor, person, record, system
from console.errors import Invalid, Refused, SomebodyWasFirst
from console.predictor import lifecycle, promotion
from console.predictor.lifecycle import Event, State
from console.predictor.models import Learning, PredictorVersion
from console.runs.models import Run

log = logging.getLogger(__name__)

BY_ITSELF: Final = system("predictor")
# Older ones keep their report and lose their weights.
KEPT_WITH_DATA: Final = 20


# --- reading ------------------------------------------------------------------------------


def active() -> PredictorVersion | None:
    """The version in force, without its data; None: the analytic estimate."""
    return PredictorVersion.objects.filter(state=State.ACTIVE).defer("data").first()


def active_number() -> int | None:
    """One small read, to see whether what was loaded before is still in force."""
    found = PredictorVersion.objects.filter(state=State.ACTIVE)
    return found.values_list("number", flat=True).first()


def active_data() -> tuple[int, bytes] | None:
    """Number and file of the version in force. None: predict with the analytic estimate."""
    found = PredictorVersion.objects.filter(state=State.ACTIVE).first()
    if found is None:
        return None
    data = bytes(found.data)
    if hashlib.sha256(data).hexdigest() != found.sha256:
        log.error("The file of %s is damaged: the analytic estimate stands in for it.", found)
        return None
    return found.number, data


def name_of(version: PredictorVersion | None) -> str:
    return f"version {version.number}" if version else promotion.ESTIMATE


def learning() -> Learning:
    return Learning.objects.get_or_create(pk=1)[0]


def lock() -> None:
    """One transaction at a time goes on from here."""
    Learning.objects.select_for_update().get(pk=learning().pk)


# --- a new version ------------------------------------------------------------------------


@transaction.atomic
def add(
    data: bytes,
    report: dict[str, Any],
    *,
    simulated: bool,
    now: datetime,
    run: Run | None = None,
) -> PredictorVersion:
    """The next version, as a candidate. Raises SomebodyWasFirst."""
    last = PredictorVersion.objects.aggregate(number=Max("number"))["number"] or 0
    try:
        with transaction.atomic():
            version = PredictorVersion.objects.create(
                number=last + 1,
                state_since=now,
                simulated=simulated,
                made_at=now,
                run=run,
                data=data,
                sha256=hashlib.sha256(data).hexdigest(),
                report=report,
                changed_by=BY_ITSELF.name,
            )
    except IntegrityError:
        raise SomebodyWasFirst("Another version was added meanwhile.") from None
    record(BY_ITSELF, "predictor.add", version, now=now, observations=_observations(report))
    _forget_old_data()
    return version


def _observations(report: dict[str, Any]) -> Any:
    return report.get("counts", {}).get("observations")


def _forget_old_data() -> None:
    newest = PredictorVersion.objects.order_by("-number").values_list("pk", flat=True)
    kept = list(newest[:KEPT_WITH_DATA])
    old = PredictorVersion.objects.exclude(pk__in=kept).exclude(state=State.ACTIVE)
    old.exclude(data=b"").update(data=b"")


def judge(version: PredictorVersion, against: int | None, now: datetime) -> promotion.Verdict:
    """Let the rule decide on a candidate that was compared with version `against`.

    A person who has taken learning into their own hands is obeyed: the candidate then waits.
    """
    found = promotion.verdict(version.report, _word(against))
    if not found.promote:
        _reject(version, found.why, now)
        return found
    if not learning().automatic:
        _note(version, f"{found.why}; waits for a person")
        return promotion.Verdict(False, found.why)
    _put_in_force(version, against, BY_ITSELF, found.why, now)
    return found


def _word(number: int | None) -> str:
    return f"version {number}" if number else promotion.ESTIMATE


@transaction.atomic
def _reject(version: PredictorVersion, why: str, now: datetime) -> None:
    told = {"state_since": now, "changed_by": BY_ITSELF.name, "why": why}
    if not _move(version, State.CANDIDATE, Event.REJECT, told):
        raise _somebody_was_first()
    record(BY_ITSELF, "predictor.reject", version, now=now, reason=why)
    announce("predictor")


def _note(version: PredictorVersion, why: str) -> None:
    PredictorVersion.objects.filter(pk=version.pk, state=State.CANDIDATE).update(why=why)
    announce("predictor")


# --- what people do -----------------------------------------------------------------------


def require_engineer(user: User) -> None:
    """Whoever writes policies for all pools. Raises PermissionDenied."""
    access.require(user, Role.POLICY_AUTHOR)


def promote(number: int, seen: int | None, user: User, reason: str, now: datetime) -> None:
    """Put a version in force in place of `seen` (None: the estimate), whatever the rule says.

    Raises PermissionDenied, Invalid without a reason, Refused, SomebodyWasFirst.
    """
    require_engineer(user)
    _require_reason(reason)
    version = PredictorVersion.objects.filter(number=number).defer("data").first()
    if version is None:
        raise Invalid(f"There is no version {number}.")
    _put_in_force(version, seen, person(user), reason, now)


def roll_back(seen: int, user: User, reason: str, now: datetime) -> PredictorVersion | None:
    """Go back to what was in force before version `seen`; None: to the analytic estimate.

    Nothing is promoted by itself from then on, until a person lets it. Raises as `promote`.
    """
    require_engineer(user)
    _require_reason(reason)
    version = active()
    if version is None or version.number != seen:
        raise _somebody_was_first()
    earlier = before(version)
    with transaction.atomic():
        _put_in_force(earlier, seen, person(user), reason, now)
        _set_automatic(False, person(user), now)
    return earlier


def before(version: PredictorVersion | None) -> PredictorVersion | None:
    """What a roll-back leads to: the nearest version before that still has its weights."""
    earlier = version.replaced if version else None
    while earlier is not None and not earlier.data:
        earlier = earlier.replaced
    return earlier


@transaction.atomic
def set_automatic(automatic: bool, user: User, now: datetime) -> None:
    """Whether better versions take over by themselves. Raises PermissionDenied."""
    require_engineer(user)
    _set_automatic(automatic, person(user), now)


def _set_automatic(automatic: bool, who: Actor, now: datetime) -> None:
    row = learning()
    if row.automatic == automatic:
        return
    Learning.objects.filter(pk=row.pk).update(
        automatic=automatic, changed_by=who.name, changed_at=now
    )
    record(who, "predictor.automatic", row, now=now, automatic=automatic)
    announce("predictor")


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise Invalid("Say why: a later reader will ask.", {"reason": "choose or write a reason"})


@transaction.atomic
def _put_in_force(
    version: PredictorVersion | None, seen: int | None, who: Actor, why: str, now: datetime
) -> None:
    """`version` (None: the estimate) in place of `seen`, when that is still in force."""
    former = PredictorVersion.objects.filter(number=seen).defer("data").first() if seen else None
    told = {"state_since": now, "changed_by": who.name, "why": why[:1_000]}
    if former is None and active_number() is not None:
        raise _somebody_was_first()
    if former is not None and not _move(former, State.ACTIVE, Event.RETIRE, told):
        raise _somebody_was_first()
    if version is not None:
        _activate(version, former, told)
    action = "predictor.promote" if version else "predictor.retire"
    subject = version or former
    if subject is None:
        raise Refused("The analytic estimate is in force already.")
    was = name_of(former)
    record(who, action, subject, now=now, reason=why, before=was, after=name_of(version))
    announce("predictor")


def _activate(
    version: PredictorVersion, former: PredictorVersion | None, told: dict[str, Any]
) -> None:
    if not PredictorVersion.objects.filter(pk=version.pk).exclude(data=b"").exists():
        raise Refused(f"Version {version.number} is too old: its weights are gone.")
    came_from = {} if version.state == State.RETIRED else {"replaced": former}
    try:
        with transaction.atomic():
            moved = _move(version, State(version.state), Event.PROMOTE, told | came_from)
    except IntegrityError:  # another one is in force meanwhile
        moved = False
    if not moved:
        raise _somebody_was_first()


def _move(version: PredictorVersion, state: State, event: Event, told: dict[str, Any]) -> bool:
    """Compare-and-set from `state`. Raises IllegalTransition when that does not know the event."""
    after = lifecycle.next_state(state, event, str(version))
    same = PredictorVersion.objects.filter(pk=version.pk, state=state)
    return bool(same.update(state=after, **told))


def _somebody_was_first() -> SomebodyWasFirst:
    now_active = active()
    who = f" by {now_active.changed_by.removeprefix('user:')}" if now_active else ""
    return SomebodyWasFirst(
        f"Somebody was first: {name_of(now_active)} is in force meanwhile{who}."
    )
