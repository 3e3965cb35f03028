"""What the Overview reads. Each function says how many queries it takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Avg, Count, F, Max, Q
from django.db.models.functions import TruncHour, TruncMinute

from agents.wire.names import GpuState, PlacementState, SharingMode
from console.accounts.models import User
from console.api import in_sight
from console.evictions.models import Eviction
from console.inventory.models import Gpu, Node, Pool, SharingChange
from console.overview.history import Baseline, Mark, PoolSample, baseline
from console.overview.scope import EVERYWHERE, PoolFacts, Scope
from console.overview.windows import Window
from console.scheduling.models import Placement, Round
from console.telemetry.models import FleetSample
from console.workloads.models import OfflineJob

DAY: Final = timedelta(hours=24)
SOURCES: Final = {
    "simulated": "simulated",
    "nvml": "read by NVML",
    "imported": "imported, measured by nobody",
}
# More kinds of card of one source are not named.
MOST_CARDS: Final = 3
# Result and bound of a round that agree this closely are the same number.
PROVEN: Final = 1e-6
BUCKETS: Final = {"": F("at"), "minute": TruncMinute("at"), "hour": TruncHour("at")}

LIVE: Final = Q(retired_at=None)
SILENT: Final = Q(node__state__in=[Node.State.STALE, Node.State.LOST])
ENFORCED: Final = Q(sharing_mode=SharingMode.ENFORCE, node__pool__sharing_mode=SharingMode.ENFORCE)


@dataclass(frozen=True)
class Fleet:
    """GPUs in all, and how many of them share or are held back as the standing control."""

    gpus: int
    sharing: int
    holdback: int

    @property
    def holdback_percent(self) -> float | None:
        return self.holdback / self.gpus * 100 if self.gpus else None


@dataclass(frozen=True)
class Evictions:
    """Evictions done in the last 24 hours, and how many of them were emergencies."""

    done: int
    emergency: int


def oldest_sample() -> datetime | None:
    """One query."""
    return FleetSample.objects.order_by("at").values_list("at", flat=True).first()


def samples(window: Window, now: datetime, scope: Scope = EVERYWHERE) -> list[PoolSample]:
    """One query, one row per pool and bucket."""
    rows = (
        FleetSample.objects.filter(scope.within("pool"), at__gt=now - window.span, at__lte=now)
        .values("pool_id", moment=BUCKETS[window.bucket])
        .annotate(
            Avg("reporting"),
            Avg("sm_activity_percent"),
            Avg("gpu_util_percent"),
            Avg("memory_percent"),
            Avg("online_p99_slo_ratio"),
            Max("online_p99_slo_ratio_worst"),
            Max("equivalent_gpu_s_total"),
            Max("lost_work_s_total"),
            Max("restart_s_total"),
        )
        .order_by("moment")
    )
    return [
        PoolSample(
            row["moment"],
            row["pool_id"],
            row["reporting__avg"],
            row["sm_activity_percent__avg"],
            row["gpu_util_percent__avg"],
            row["memory_percent__avg"],
            row["online_p99_slo_ratio__avg"],
            row["online_p99_slo_ratio_worst__max"],
            row["equivalent_gpu_s_total__max"],
            row["lost_work_s_total__max"],
            row["restart_s_total__max"],
        )
        for row in rows
    ]


def pools(user: User) -> list[PoolFacts]:
    """Those that `user` may see: one query."""
    live = Count("nodes__gpus", filter=Q(nodes__gpus__retired_at=None))
    seen = in_sight(Pool.objects.all(), user, "").annotate(gpus=live)
    return [PoolFacts(*row) for row in seen.values_list("pk", "name", "sharing_mode", "gpus")]


def sharing_changes(scope: Scope = EVERYWHERE) -> list[SharingChange]:
    """One query: every switch of a whole pool to or from enforce, oldest first."""
    whole = SharingChange.objects.filter(scope.within("pool"), gpu=None).exclude(before=F("after"))
    moved = Q(before=SharingMode.ENFORCE) | Q(after=SharingMode.ENFORCE)
    return list(whole.filter(moved).order_by("at"))


def marks(changes: list[SharingChange]) -> list[Mark]:
    """One mark for pools that were switched together."""
    found = {
        (change.at, change.after): Mark(
            change.at, change.after == SharingMode.ENFORCE, change.actor.partition(":")[2]
        )
        for change in changes
    }
    return list(found.values())


def before_sharing(changes: list[SharingChange], pools: list[PoolFacts]) -> Baseline:
    """What was measured before the pools that share now began to."""
    began: dict[int, Mapping[str, Any]] = {}
    for change in changes:
        if change.after == SharingMode.ENFORCE and change.pool_id is not None:
            began[change.pool_id] = change.baseline
    gpus = {pool.id: pool.gpus for pool in pools}
    return baseline([(gpus.get(pool, 0), figures) for pool, figures in began.items()])


def fleet(scope: Scope = EVERYWHERE) -> Fleet:
    """One query."""
    return Fleet(
        **Gpu.objects.filter(LIVE, scope.within("node__pool")).aggregate(
            gpus=Count("pk"),
            sharing=Count("pk", filter=ENFORCED),
            holdback=Count("pk", filter=Q(holdback=True)),
        )
    )


def states(scope: Scope = EVERYWHERE) -> Counter[str]:
    """GPUs by state as the live summary counts them. One query."""
    rows = (
        Gpu.objects.filter(LIVE, scope.within("node__pool"))
        .values_list("state", "disabled", "node__state")
        .annotate(n=Count("pk"))
        .order_by()
    )
    counts: Counter[str] = Counter()
    for state, by_person, node_state, n in rows:
        counts[_shown_state(state, by_person, node_state)] += n
    return counts


def _shown_state(state: str, by_person: bool, node_state: str) -> str:
    if node_state != Node.State.CONNECTED:
        return "NO_DATA"
    if state == GpuState.DISABLED and not by_person:
        return "QUARANTINED"
    return state


def jobs(scope: Scope = EVERYWHERE) -> dict[str, int]:
    """Offline jobs that run in the scope, and those that wait and may come to it. Two queries."""
    running = [PlacementState.RUNNING, PlacementState.FROZEN]
    here = Placement.objects.filter(scope.within("gpu__node__pool"), state__in=running)
    waiting = OfflineJob.objects.filter(state=OfflineJob.State.QUEUED)
    return {
        "running": here.count(),
        "queued": waiting.filter(scope.may_come()).count(),
    }


def evictions_done(now: datetime, scope: Scope = EVERYWHERE) -> Evictions:
    """One query."""
    here = Eviction.objects.filter(scope.within("gpu__node__pool"))
    done = here.filter(state=Eviction.State.COMPLETED, ended_at__gt=now - DAY)
    emergency = Count("pk", filter=Q(origin="emergency"))
    return Evictions(**done.aggregate(done=Count("pk"), emergency=emergency))


@dataclass(frozen=True)
class Source:
    """How many GPUs are known from where, and which cards with which driver that are."""

    word: str
    gpus: int
    cards: tuple[str, ...]


def sources(scope: Scope = EVERYWHERE) -> list[Source]:
    """Where the figures come from, the most first. One query."""
    live = Gpu.objects.filter(LIVE, scope.within("node__pool"))
    rows = live.values_list("source", "model", "driver").annotate(n=Count("pk")).order_by("-n")
    gpus, cards = Counter[str](), defaultdict[str, list[str]](list)
    for source, model, driver, n in rows:
        gpus[source] += n
        cards[source].append(f"{model}, driver {driver}" if driver else model)
    return [
        Source(SOURCES.get(source, source), n, tuple(cards[source][:MOST_CARDS]))
        for source, n in gpus.most_common()
    ]


@dataclass(frozen=True)
class LastRound:
    """The newest round that ended."""

    round: Round
    took_s: float | None
    is_optimal: bool


def last_round() -> LastRound | None:
    """One query."""
    ended = Round.objects.filter(state__in=(Round.State.DONE, Round.State.FAILED))
    row = ended.order_by("-started_at").first()
    if row is None:
        return None
    took_s = (row.finished_at - row.started_at).total_seconds() if row.finished_at else None
    return LastRound(row, took_s, _is_proven(row.objective, row.upper_bound))


def _is_proven(result: float | None, bound: float | None) -> bool:
    return result is not None and bound is not None and bound - result <= PROVEN
