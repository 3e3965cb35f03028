"""All that a page tells of one GPU, read in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from agents.wire.names import GpuState, PlacementState, SharingMode, Signal
from console import figures
from console.accounts.models import User
from console.api import in_sight
from console.errors import MuxFlowError
from console.evictions.models import Eviction
from console.faults import queries as faults
from console.faults.queries import Told
from console.forecasts import ahead
from console.forecasts.ahead import Ahead
from console.inventory import sharing
from console.inventory.models import Gpu, Node
from console.policies import rules
from console.policies import services as policies
from console.policies.models import PolicyVersion
from console.policies.rules import PolicyBody
from console.scheduling import next_start
from console.scheduling.coverage import Coverage
from console.scheduling.models import Placement
from console.telemetry.hub import live_of
from console.telemetry.latest import LiveGpu
from console.telemetry.scales import Card, Scale, scales
from console.workloads.models import OnlineInstance

WEEK: Final = timedelta(days=7)
# As agents.sysmonitor.signals: below, a card lowers its clock to save power.
IDLE_UTIL_PERCENT: Final = 10.0


@dataclass(frozen=True)
class Limit:
    """One limit of a guest: what we want (None: left to the policy), what the node says is true,
    and what it still waits for."""

    name: str
    unit: str
    desired: float | None
    effective: float | None
    pending: str


@dataclass(frozen=True)
class Cooldown:
    """A rest after an eviction: until when by the node's word, how long, and after which; grown
    where it is longer than the policy's first, because another was not long before."""

    ends_at: datetime
    span_s: float
    after: Eviction | None
    is_grown: bool


class Passport:
    """Read as it is used; nothing is asked of the database twice."""

    def __init__(self, gpu: Gpu, now: datetime) -> None:
        self.gpu, self.now = gpu, now

    @cached_property
    def live(self) -> LiveGpu | None:
        return live_of(self.gpu.pk)

    @property
    def state(self) -> str:
        """The state as pages name it, see console.looks.GPU."""
        if self.live is None or not self.live.is_live:
            return "NO_DATA" if self.gpu.node.source == Node.Source.AGENT else self.gpu.state
        if self.live.state == GpuState.DISABLED and not self.gpu.disabled:
            return "QUARANTINED"
        return self.live.state

    @property
    def is_idle(self) -> bool:
        """Whether the card runs so little that its clock says nothing."""
        util = self.live.gpu_util_percent if self.live else None
        return util is not None and util <= IDLE_UTIL_PERCENT

    @property
    def silence(self) -> str:
        """Why there is no live data; empty when there is."""
        if self.live is not None and self.live.is_live:
            return ""
        if self.gpu.node.source != Node.Source.AGENT:
            return "Imported: no agent on the node reports it, so there is no live data."
        if self.live is None:
            return (
                "Nothing was heard of it yet. Its agent goes on protecting online work by itself."
            )
        return f"Last heard {figures.age(self.live.age_s)}: what is shown is the last known value."

    @cached_property
    def instances(self) -> Sequence[OnlineInstance]:
        rows = OnlineInstance.objects.filter(gpu=self.gpu).select_related("service__team")
        return list(rows.order_by("service__tier", "service__name"))

    @cached_property
    def instance(self) -> OnlineInstance | None:
        """The most important online tenant."""
        return self.instances[0] if self.instances else None

    @property
    def over_slo(self) -> bool:
        slo = self.instance and self.instance.service.slo_p99_ms
        p99 = self.live and self.live.online_p99_ms
        return bool(slo and p99 and p99 > slo)

    @cached_property
    def guest(self) -> Placement | None:
        live = Placement.objects.filter(gpu=self.gpu).exclude(state=PlacementState.ENDED)
        return live.select_related("job__team", "round").first()

    @property
    def coverage(self) -> Coverage | None:
        """Of the guest; None without one."""
        guest = self.guest
        if guest is None:
            return None
        may_escape = self.body is not None and self.body.allow_unlimited_jobs
        return Coverage(guest.xcuda_processes, guest.cuda_processes, may_escape)

    @cached_property
    def faults(self) -> list[Told]:
        return faults.of_gpu(self.gpu)

    @property
    def limits(self) -> list[Limit]:
        return limits(self.guest, self.live) if self.guest else []

    @property
    def pending(self) -> str:
        """What of the limits waits, until when, and what a restart would be worth; empty: none."""
        return next_start.sentence(self.guest) if self.guest else ""

    @cached_property
    def ahead(self) -> Ahead:
        """The online load of the last hours and of the next one."""
        return ahead.load(self.gpu.pk, self.now)

    @property
    def left_percent(self) -> float | None:
        """What the next hour leaves for a guest; None where nothing is foretold."""
        return self.ahead.left_percent(self.body.sm_reserve_percent) if self.body else None

    @cached_property
    def eviction(self) -> Eviction | None:
        """The open one of the guest."""
        rows = Eviction.objects.filter(gpu=self.gpu, state__in=Eviction.OPEN)
        return rows.select_related("placement__job").first()

    @cached_property
    def cooldown(self) -> Cooldown | None:
        """None when it does not cool down, or nobody said for how long. Of its node's status, which
        may be a moment behind its samples."""
        span_s, cools = self.gpu.cooldown_s, self.gpu.state == GpuState.COOLDOWN
        if not cools or not span_s or self.state != GpuState.COOLDOWN:
            return None
        done = Eviction.objects.filter(gpu=self.gpu, state=Eviction.State.COMPLETED)
        after = done.select_related("placement__job").order_by("-ended_at").first()
        ends_at = self.gpu.state_since + timedelta(seconds=span_s)
        grown = self.body is not None and span_s > self.body.cooldown_s
        return Cooldown(ends_at, span_s, after, grown)

    @cached_property
    def evictions_this_week(self) -> int:
        return Eviction.objects.filter(gpu=self.gpu, proposed_at__gte=self.now - WEEK).count()

    @cached_property
    def version(self) -> PolicyVersion | None:
        try:
            return policies.version_for(self.gpu.node.pool)
        except MuxFlowError:
            return None

    @cached_property
    def body(self) -> PolicyBody | None:
        return rules.parse(self.version.body) if self.version else None

    @cached_property
    def scales(self) -> list[Scale]:
        thresholds = self.body.thresholds if self.body else {}
        reserve = self.body.memory_reserve_percent if self.body else None
        slo = self.instance.service.slo_p99_ms if self.instance else None
        gpu = self.gpu
        card = Card(
            gpu.memory_bytes, gpu.power_limit_w, gpu.sm_clock_max_mhz, slo, gpu.pcie_max_bytes_s
        )
        return scales(card, thresholds, reserve)

    def scale(self, signal: Signal) -> Scale:
        """Raises StopIteration for a signal that has none."""
        return next(scale for scale in self.scales if scale.signal is signal)

    @property
    def pcie_max_gb_s(self) -> float | None:
        most = self.gpu.pcie_max_bytes_s
        return None if most is None else most / 1e9

    @property
    def labels(self) -> list[str]:
        return sorted(self.gpu.label_words)

    @property
    def mode(self) -> SharingMode:
        return sharing.effective_mode(self.gpu)

    @property
    def mode_word(self) -> str:
        """`Not now: mode observe`."""
        return f"Not now: mode {self.mode}"

    @property
    def forbidding_fact(self) -> str:
        return sharing.forbidding_fact(self.gpu)

    @property
    def quota_bytes(self) -> float | None:
        """What a guest may use: card − online now − reserve; None without a sample or policy."""
        online = self.live.online_memory_bytes if self.live else None
        if online is None or self.body is None:
            return None
        reserve = self.gpu.memory_bytes * self.body.memory_reserve_percent / 100
        return max(0.0, self.gpu.memory_bytes - online - reserve)


def load(gpu_id: int, user: User, now: datetime) -> Passport:
    """Raises Gpu.DoesNotExist, also for a GPU of a pool that `user` may not see."""
    rows = Gpu.objects.select_related("node__pool__policy__current__policy")
    return Passport(in_sight(rows, user, "node__pool").get(pk=gpu_id), now)


def limits(guest: Placement, live: LiveGpu | None) -> list[Limit]:
    """SM share is fixed when the client starts, so a new one waits for a restart; duty follows."""
    duty = live.duty_percent if live and live.is_live else guest.effective_duty_percent
    quota = guest.effective_memory_quota_bytes
    waits = guest.pending_sm_share_percent is not None
    return [
        Limit(
            "SM share", "%", guest.pending_sm_share_percent or guest.sm_share_percent,
            guest.effective_sm_share_percent, "at its next start" if waits else "none",
        ),
        Limit("Duty", "%", guest.duty_percent, duty, "none"),
        Limit("Memory", "B", guest.memory_quota_bytes, quota, "none"),
    ]  # fmt: skip


def facts(passport: Passport) -> list[tuple[bool, str]]:
    """What was checked to say whether this GPU can be shared; what forbids it comes first."""
    gpu, live = passport.gpu, passport.live
    told = live is not None and live.is_live
    checks = [
        (not passport.forbidding_fact, passport.forbidding_fact or "Nothing known forbids it"),
        (gpu.node.source == Node.Source.AGENT, "An agent runs on the node"),
        (told, "Its signals arrive once a second"),
        (
            told and live is not None and live.sm_activity_percent is not None,
            "SM activity can be read",
        ),
        (not gpu.degraded, _degraded(gpu)),
        (not gpu.node.cordoned, "The node takes new work" if not gpu.node.cordoned else
         "The node is cordoned: no new work"),
    ]  # fmt: skip
    if passport.cooldown:
        checks.append((False, _cools(passport.cooldown)))
    return sorted(checks, key=lambda check: check[0])


def _cools(cooldown: Cooldown) -> str:
    after = f" after {cooldown.after.placement.job} was taken off" if cooldown.after else ""
    longer = ", longer than the first as another eviction was not long before"
    span = figures.span(cooldown.span_s) + (longer if cooldown.is_grown else "")
    return f"It rests{after}: no new work until {cooldown.ends_at:%H:%M:%S} UTC ({span})"


def _degraded(gpu: Gpu) -> str:
    if gpu.degraded:
        return f"Signals missing: {', '.join(str(name) for name in gpu.degraded)}"
    return "Every signal that the policy needs is there"
