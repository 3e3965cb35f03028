"""The GPUs that a policy governs: what they measure now, and which nodes have applied it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Min, QuerySet

from agents.wire.names import Signal
from console.errors import Unavailable
from console.inventory.models import Gpu, Node
from console.policies import services
from console.policies.models import Policy
from console.telemetry import live_store
from console.telemetry.latest import LiveGpu

BEHIND_SHOWN: Final = 20


@dataclass(frozen=True)
class Applied:
    """How many of the nodes with an agent report version `number`, and which do not yet."""

    number: int
    total: int
    on_it: int
    behind: Sequence[tuple[Node, int | None]]

    @property
    def is_everywhere(self) -> bool:
        return self.on_it == self.total


def nodes_of(policy: Policy) -> QuerySet[Node]:
    """Nodes whose agents should apply `policy`."""
    pools = services.pools_of(policy)
    return Node.objects.filter(pool__in=pools).exclude(source=Node.Source.IMPORTED)


def gpus_of(policy: Policy) -> QuerySet[Gpu]:
    return Gpu.objects.filter(node__pool__in=services.pools_of(policy), retired_at=None)


def applied(policy: Policy) -> Applied:
    """What the nodes say they have applied."""
    number = policy.current.number if policy.current else 0
    nodes = list(nodes_of(policy).select_related("pool"))
    told = [(node, reported(node, policy.slug)) for node in nodes]
    behind = [(node, version) for node, version in told if version != number]
    return Applied(number, len(nodes), len(nodes) - len(behind), behind[:BEHIND_SHOWN])


def reported(node: Node, slug: str) -> int | None:
    """The version that the node says it follows; None when it has said nothing of it.

    Nodes name a policy `slug@number`.
    """
    versions = [
        number for name, number in node.observed_policies.items() if name.split("@")[0] == slug
    ]
    return max(versions, default=None)


@dataclass(frozen=True)
class Readings:
    """Present values of the matching GPUs by signal, in policy units; `live` GPUs answered."""

    gpus: int
    live: int
    values: dict[Signal, list[float]]

    def beyond(self, signal: Signal, limit: float, is_reversed: bool) -> int:
        """How many are past `limit` now."""
        values = self.values.get(signal, [])
        return sum(value < limit if is_reversed else value > limit for value in values)


def readings(policy: Policy) -> Readings:
    """What the matching GPUs measure now; without Redis nothing does."""
    gpus = list(gpus_of(policy).annotate(slo_ms=Min("instances__service__slo_p99_ms")))
    try:
        live = live_store.read()
    except Unavailable:
        live = {}
    values: dict[Signal, list[float]] = {}
    answering = [(gpu, live[gpu.pk]) for gpu in gpus if gpu.pk in live and live[gpu.pk].is_live]
    for gpu, sample in answering:
        for signal, value in _in_policy_units(gpu, sample).items():
            if value is not None:
                values.setdefault(signal, []).append(round(value, 3))
    return Readings(len(gpus), len(answering), values)


def _in_policy_units(gpu: Gpu, sample: LiveGpu) -> dict[Signal, float | None]:
    slo_ms: float | None = getattr(gpu, "slo_ms", None)
    return {
        Signal.ONLINE_P99: _share(sample.online_p99_ms, slo_ms),
        Signal.MEMORY: sample.memory_percent,
        Signal.SM_ACTIVITY: sample.sm_activity_percent,
        Signal.SM_OCCUPANCY: sample.sm_occupancy_percent,
        Signal.GPU_UTIL: sample.gpu_util_percent,
        Signal.MEMORY_BANDWIDTH: sample.memory_bandwidth_percent,
        Signal.SM_CLOCK: _percent(sample.sm_clock_mhz, gpu.sm_clock_max_mhz),
        Signal.TEMPERATURE: sample.temperature_celsius,
        Signal.POWER: _percent(sample.power_w, gpu.power_limit_w),
        Signal.PCIE_RX: _percent(sample.pcie_rx_bytes_s, gpu.pcie_max_bytes_s),
    }


def _share(value: float | None, whole: float | None) -> float | None:
    return value / whole if value is not None and whole else None


def _percent(value: float | None, whole: float | None) -> float | None:
    share = _share(value, whole)
    return None if share is None else share * 100


def governed(policy: Policy) -> int:
    """How many GPUs follow it."""
    return gpus_of(policy).count()
