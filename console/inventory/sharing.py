"""Sharing mode: who may be placed where, switched by people, with a preview before.

The lower of the pool's and the GPU's own mode holds. Starting raises both; stopping lowers them at
once, so that no new work comes, and asks for the end of what runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Avg, Count, Min, QuerySet

from agents.wire.names import Origin, SharingMode
from console import doorbell
from console.accounts.models import Role
from console.announce import announce
from console.audit.services import Actor, record
from console.errors import Refused, SomebodyWasFirst
from console.inventory import modes
from console.inventory.emptying import empty, live_on
from console.inventory.models import Gpu, Node, Pool, SharingChange
from console.inventory.nodes import touch
from console.scheduling.models import Placement
from console.telemetry.models import FleetSample

# Whoever is on call may stop what an operator started.
BRAKE: Final = (Role.OPERATOR, Role.APPROVER)
BASELINE: Final = timedelta(days=7)


def effective_mode(gpu: Gpu) -> SharingMode:
    """The mode that holds for `gpu`; select `node__pool` with it."""
    return modes.lower(gpu.node.pool.sharing_mode, gpu.sharing_mode)


def forbidding_fact(gpu: Gpu) -> str:
    """Why `gpu` cannot share, whatever its mode; empty when it can."""
    facts = (
        (gpu.retired_at is not None, "replaced by another card"),
        (gpu.conflict, "another node claims the same UUID"),
        (gpu.node.source == Node.Source.IMPORTED, "imported: no agent on the node yet"),
        (gpu.disabled, f"disabled: {gpu.disabled_reason or 'no reason given'}"),
        (gpu.unshareable_fact != "", gpu.unshareable_fact),
        (gpu.never_share, "marked as never to be shared"),
        (gpu.node.never_share, "its node is marked as never to be shared"),
        (gpu.holdback, modes.HOLDBACK_FACT),
    )
    return next((fact for holds, fact in facts if holds), "")


def roles_to_set(present: str, wanted: SharingMode) -> tuple[Role, ...]:
    """Who may: an operator, and to lower a mode also an approver, who is on call."""
    lowers = modes.lower(present, wanted) == wanted
    return BRAKE if lowers else (Role.OPERATOR,)


@dataclass(frozen=True)
class Forbidden:
    """One fact and the GPUs that it keeps from sharing."""

    fact: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True)
class PoolStart:
    """What starting would do in one pool."""

    pool: Pool
    starting: tuple[Gpu, ...]
    sharing: tuple[Gpu, ...]
    forbidden: tuple[Forbidden, ...]

    @property
    def gpus(self) -> int:
        left_out = sum(len(forbidden.gpus) for forbidden in self.forbidden)
        return len(self.starting) + len(self.sharing) + left_out


@dataclass(frozen=True)
class PoolStop:
    """What stopping would do in one pool: these GPUs take no more work, these jobs go."""

    pool: Pool
    sharing: int
    placements: tuple[Placement, ...]

    @property
    def unsaved_work_s(self) -> float:
        """What would be lost if no job saved its work; what is unknown counts nothing."""
        return sum(placement.unsaved_work_s or 0 for placement in self.placements)


def preview_start(pools: Iterable[Pool]) -> list[PoolStart]:
    """What `start` would do, pool by pool; changes nothing."""
    return [_preview_start(pool) for pool in pools]


@transaction.atomic
def start(pools: Sequence[Pool], actor: Actor, reason: str, now: datetime) -> list[SharingChange]:
    """Raise these pools and their shareable GPUs to enforce, and ask for a round.

    GPUs that somebody switched off stay off. Raises Refused when no GPU of them could share, and
    SomebodyWasFirst when all share already.
    """
    plans = preview_start(pools)
    if not any(plan.starting or plan.sharing for plan in plans):
        raise Refused(f"No GPU can share in {_names(pools)}: {_first_fact(plans)}.")
    changes = [change for plan in plans if (change := _start(plan, actor, reason, now))]
    if not changes:
        raise SomebodyWasFirst(f"Sharing is on already in {_names(pools)}.")
    doorbell.ring(doorbell.RUN_ROUND)
    return changes


def preview_stop(pools: Iterable[Pool]) -> list[PoolStop]:
    """What `stop` would do, pool by pool; changes nothing."""
    placements = defaultdict(list)
    for placement in live_on(Gpu.objects.filter(node__pool__in=pools)):
        placements[placement.gpu.node.pool_id].append(placement)
    return [PoolStop(pool, _sharing(pool).count(), tuple(placements[pool.pk])) for pool in pools]


@transaction.atomic
def stop(
    scope: Sequence[Pool] | Gpu, actor: Actor, reason: str, now: datetime
) -> list[SharingChange]:
    """Lower to observe at once, and ask for the end of every job that runs there.

    Raises SomebodyWasFirst when nothing there shares or runs.
    """
    if isinstance(scope, Gpu):
        return [set_mode(scope, SharingMode.OBSERVE, actor, reason, now)]
    changes = [change for pool in scope if (change := _stop(pool, actor, reason, now))]
    gone = empty(Gpu.objects.filter(node__pool__in=scope), Origin.STOP_SHARING, actor, reason, now)
    if not changes and not gone:
        raise SomebodyWasFirst(f"Sharing is off already in {_names(scope)}.")
    return changes


@transaction.atomic
def set_mode(
    target: Pool | Gpu, mode: SharingMode, actor: Actor, reason: str, now: datetime
) -> SharingChange:
    """Set the mode of one pool or one GPU; below enforce, what runs there is asked to go.

    Raises Refused when a fact forbids the GPU to share, SomebodyWasFirst when it is set already.
    """
    if mode == SharingMode.ENFORCE and isinstance(target, Gpu):
        _refuse_unshareable(target)
    change = _write(target, mode, actor, reason, now)
    if change is None:
        raise SomebodyWasFirst(f"{target} is at {mode} already.")
    gpus = Gpu.objects.filter(**_within(target), retired_at=None)
    touch(gpus.values_list("node_id", flat=True), now)
    if mode == SharingMode.ENFORCE:
        doorbell.ring(doorbell.RUN_ROUND)
    else:
        empty(gpus, Origin.STOP_SHARING, actor, reason, now)
    return change


def _refuse_unshareable(gpu: Gpu) -> None:
    if fact := forbidding_fact(gpu):
        raise Refused(f"{gpu} cannot share: {fact}.")


def _preview_start(pool: Pool) -> PoolStart:
    gpus = list(Gpu.objects.filter(node__pool=pool, retired_at=None).select_related("node__pool"))
    held = _held_back(pool, gpus)
    forbidden: dict[str, list[Gpu]] = defaultdict(list)
    starting: list[Gpu] = []
    sharing: list[Gpu] = []
    for gpu in gpus:
        fact = modes.HOLDBACK_FACT if gpu.pk in held else _left_alone(gpu)
        if fact:
            forbidden[fact].append(gpu)
        else:
            (sharing if effective_mode(gpu) == SharingMode.ENFORCE else starting).append(gpu)
    facts = sorted(forbidden.items(), key=lambda item: -len(item[1]))
    return PoolStart(
        pool,
        tuple(starting),
        tuple(sharing),
        tuple(Forbidden(fact, tuple(gpus)) for fact, gpus in facts),
    )


def _left_alone(gpu: Gpu) -> str:
    if gpu.sharing_mode == SharingMode.OFF:
        return "switched off by a person"
    return forbidding_fact(gpu)


def _held_back(pool: Pool, gpus: Sequence[Gpu]) -> frozenset[int]:
    """Those held back already, and as many more as the pool's percentage asks for."""
    held = frozenset(gpu.pk for gpu in gpus if gpu.holdback)
    candidates = [gpu.pk for gpu in gpus if not _left_alone(gpu)]
    wanted = modes.holdback_count(len(held) + len(candidates), pool.holdback_percent)
    return held | modes.choose(candidates, wanted - len(held), seed=pool.name)


def _start(plan: PoolStart, actor: Actor, reason: str, now: datetime) -> SharingChange | None:
    raised = _raise_gpus(plan, now)
    change = _write(plan.pool, SharingMode.ENFORCE, actor, reason, now, gpus=raised)
    if change is None and raised:
        change = _note(plan.pool, SharingMode.ENFORCE, SharingMode.ENFORCE, actor, reason, now)
    if change is not None:
        touch({gpu.node_id for gpu in (*plan.starting, *plan.sharing)}, now)
    return change


def _raise_gpus(plan: PoolStart, now: datetime) -> int:
    for forbidden in plan.forbidden:
        if forbidden.fact == modes.HOLDBACK_FACT:
            held = [gpu.pk for gpu in forbidden.gpus]
            Gpu.objects.filter(pk__in=held).update(holdback=True, sharing_mode=SharingMode.OBSERVE)
    rising = Gpu.objects.filter(pk__in=[gpu.pk for gpu in plan.starting])
    return rising.filter(sharing_mode__in=(SharingMode.OBSERVE, SharingMode.SHADOW)).update(
        sharing_mode=SharingMode.ENFORCE
    )


def _stop(pool: Pool, actor: Actor, reason: str, now: datetime) -> SharingChange | None:
    gpus = Gpu.objects.filter(node__pool=pool, retired_at=None)
    lowered = gpus.filter(sharing_mode=SharingMode.ENFORCE).update(sharing_mode=SharingMode.OBSERVE)
    change = None
    if pool.sharing_mode == SharingMode.ENFORCE:
        change = _write(pool, SharingMode.OBSERVE, actor, reason, now, gpus=lowered)
    if change is not None or lowered:
        touch(gpus.values_list("node_id", flat=True), now)
    return change


def _write(
    target: Pool | Gpu, mode: SharingMode, actor: Actor, reason: str, now: datetime, **data: Any
) -> SharingChange | None:
    """Compare-and-set; None when `target` is at `mode` already."""
    before = target.sharing_mode
    rows: QuerySet[Any] = type(target)._default_manager.filter(pk=target.pk)
    if not rows.exclude(sharing_mode=mode).filter(sharing_mode=before).update(sharing_mode=mode):
        return None
    target.sharing_mode = mode
    return _note(target, SharingMode(before), mode, actor, reason, now, **data)


def _note(
    target: Pool | Gpu,
    before: SharingMode,
    after: SharingMode,
    actor: Actor,
    reason: str,
    now: datetime,
    **data: Any,
) -> SharingChange:
    pool, gpu = (target, None) if isinstance(target, Pool) else (target.node.pool, target)
    change = SharingChange.objects.create(
        at=now,
        pool=pool,
        gpu=gpu,
        before=before,
        after=after,
        actor=actor.name,
        reason=reason,
        baseline=baseline(pool, now),
    )
    record(actor, f"sharing.{after}", target, now=now, reason=reason, before=before, **data)
    announce("sharing", pool=pool.name, after=after)
    return change


def baseline(pool: Pool, now: datetime) -> dict[str, Any]:
    """The week before `now` in this pool; None where nothing was measured."""
    week = FleetSample.objects.filter(pool=pool, at__gte=now - BASELINE, at__lt=now)
    figures = week.aggregate(
        samples=Count("id"),
        since=Min("at"),
        sm_activity_percent=Avg("sm_activity_percent"),
        gpu_util_percent=Avg("gpu_util_percent"),
        memory_percent=Avg("memory_percent"),
        online_p99_slo_ratio=Avg("online_p99_slo_ratio"),
    )
    since = figures.pop("since")
    return {"since": since.isoformat() if since else None, **figures}


def _sharing(pool: Pool) -> QuerySet[Gpu]:
    if pool.sharing_mode != SharingMode.ENFORCE:
        return Gpu.objects.none()
    return Gpu.objects.filter(node__pool=pool, retired_at=None, sharing_mode=SharingMode.ENFORCE)


def _within(target: Pool | Gpu) -> dict[str, Any]:
    return {"node__pool": target} if isinstance(target, Pool) else {"pk": target.pk}


def _names(pools: Iterable[Pool]) -> str:
    return ", ".join(pool.name for pool in pools) or "no pool"


def _first_fact(plans: Sequence[PoolStart]) -> str:
    return next((f.fact for plan in plans for f in plan.forbidden), "there are no GPUs")
