"""The GPUs that share and on which nobody runs, as a job that is to be measured needs one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.db.models import Exists, OuterRef

from agents.wire.names import GpuState, Origin, SharingMode
from console.evictions.models import Eviction
from console.inventory.models import Gpu, Node
from console.policies import services as policies
from console.scheduling import hosts, lifecycle
from console.scheduling.free_gpus import Free
from console.scheduling.models import Placement
from console.telemetry.latest import STALE_S, LiveGpu
from console.workloads.models import OnlineInstance

# More are not looked at: fewer are taken in one turn.
BATCH: Final = 500


def gpus(live: Mapping[int, LiveGpu]) -> list[Gpu]:
    """GPUs that share, are heard, and on which nobody runs: neither a service that we know of nor
    a process that its node sees."""
    guest = Placement.objects.filter(gpu=OuterRef("pk"), state__in=lifecycle.LIVE)
    tenant = OnlineInstance.objects.filter(gpu=OuterRef("pk"))
    meant = Eviction.objects.filter(
        to_gpu=OuterRef("pk"), origin=Origin.MOVE, state__in=Eviction.OPEN
    )
    found = Gpu.objects.filter(
        ~Exists(guest),
        ~Exists(tenant),
        ~Exists(meant),
        retired_at=None,
        state=GpuState.HEALTHY,
        sharing_mode=SharingMode.ENFORCE,
        disabled=False,
        conflict=False,
        holdback=False,
        never_share=False,
        unshareable_fact="",
        node__pool__sharing_mode=SharingMode.ENFORCE,
        node__source=Node.Source.AGENT,
        node__state=Node.State.CONNECTED,
        node__cordoned=False,
        node__draining=False,
        node__never_share=False,
    )
    rows = found.select_related("node__pool__policy__current").order_by("-memory_bytes", "pk")
    return [gpu for gpu in rows[:BATCH] if _is_empty(live.get(gpu.pk))]


def _is_empty(sample: LiveGpu | None) -> bool:
    """Where a node cannot tell whose a process is, nothing can be measured."""
    return sample is not None and sample.age_s <= STALE_S and sample.online_processes == 0


def facts(free: Sequence[Gpu]) -> list[Free]:
    left = _left(free)
    return [
        Free(
            gpu.pk,
            gpu.model,
            gpu.node.pool.name,
            quota_bytes(gpu),
            gpu.label_words,
            left[gpu.pk].cpu_cores,
            left[gpu.pk].memory_bytes,
        )
        for gpu in free
    ]


def _left(free: Iterable[Gpu]) -> Mapping[int, hosts.Host]:
    """What the nodes of these GPUs have left for each."""
    node_ids = {gpu.node_id for gpu in free}
    there = Gpu.objects.filter(node__in=node_ids, retired_at=None).select_related("node")
    live = Placement.objects.filter(gpu__node__in=node_ids, state__in=lifecycle.LIVE)
    guests = {one.gpu_id: one.job for one in live.select_related("job")}
    return hosts.left(there, guests)


def quota_bytes(gpu: Gpu) -> int:
    reserve_percent = policies.rules_for(gpu.node.pool).memory_reserve_percent
    return int(gpu.memory_bytes * (1 - reserve_percent / 100))
