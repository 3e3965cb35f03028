"""What an import would write: rows not saved yet, and what was left out with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from agents.wire.cluster import Cluster, ClusterJob, ClusterNode, ClusterService
from agents.wire.names import GpuState, SharingMode
from console.inventory.models import Gpu, Node, Pool
from console.workloads import profiles
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService, Team
from console.workloads.profiles import Profile

ASSUMED: Final = "imported: no agent has reported it yet"
_PROFILE: Final = ("sm_percent", "gpu_util_percent", "memory_bytes", "memory_bandwidth_percent")
_NEEDS: Final = ("image", "gpus", "cpu_cores", "host_memory_bytes")


@dataclass
class Draft:
    """One import before it is written. Rows point at each other as objects."""

    now: datetime
    mode: SharingMode = SharingMode.SHADOW
    pools: dict[str, Pool] = field(default_factory=dict)
    teams: dict[str, Team] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    services: list[OnlineService] = field(default_factory=list)
    instances: list[OnlineInstance] = field(default_factory=list)
    jobs: list[OfflineJob] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def pool(self, name: str) -> Pool:
        return self.pools.setdefault(name, Pool(name=name, sharing_mode=self.mode))

    def team(self, name: str) -> Team:
        return self.teams.setdefault(name, Team(name=name))

    def add_node(self, name: str, pool: str, **fields: Any) -> Node:
        node = Node(
            name=name,
            pool=self.pool(pool),
            source=Node.Source.IMPORTED,
            state_since=self.now,
            **fields,
        )
        self.nodes.append(node)
        return node

    def add_gpu(self, node: Node, index: int, uuid: str, **fields: Any) -> Gpu:
        """Taken as healthy, so that a shadow round has something to say of it."""
        gpu = Gpu(
            node=node,
            index=index,
            uuid=uuid,
            source="imported",
            sharing_mode=self.mode,
            state=GpuState.HEALTHY,
            state_since=self.now,
            state_why=ASSUMED,
            **fields,
        )
        self.gpus.append(gpu)
        return gpu

    def add_job(self, name: str, team: str, **fields: Any) -> OfflineJob:
        job = OfflineJob(
            name=name,
            team=self.team(team),
            source="imported",
            state_since=self.now,
            submitted_at=fields.pop("submitted_at", self.now),
            **fields,
        )
        self.jobs.append(job)
        return job


def draft_of(cluster: Cluster, now: datetime, mode: SharingMode) -> Draft:
    """The rows of a cluster file that has been checked."""
    draft = Draft(now, mode)
    gpus: dict[tuple[str, int], Gpu] = {}
    for node in cluster.nodes:
        gpus.update(_node(draft, node))
    for service in cluster.services:
        _service(draft, service, gpus)
    for job in cluster.jobs:
        _job(draft, job)
    return draft


def _node(draft: Draft, node: ClusterNode) -> dict[tuple[str, int], Gpu]:
    row = draft.add_node(
        node.name,
        node.pool,
        labels=node.labels,
        runtime=node.runtime,
        cpu_cores=node.cpu_cores,
        host_memory_bytes=node.host_memory_bytes,
    )
    return {
        (node.name, index): draft.add_gpu(
            row, index, gpu.uuid, model=gpu.model, memory_bytes=gpu.memory_bytes
        )
        for index, gpu in enumerate(node.gpus)
    }


def _service(draft: Draft, service: ClusterService, gpus: Mapping[tuple[str, int], Gpu]) -> None:
    row = OnlineService(
        name=service.name,
        team=draft.team(service.team),
        pool=draft.pool(service.pool),
        tier=service.tier,
        slo_p99_ms=service.slo_p99_ms,
        base_p99_ms=service.base_p99_ms,
        peak_qps=service.peak_qps,
        **_profile(service),
    )
    draft.services.append(row)
    draft.instances += [
        OnlineInstance(service=row, gpu=gpus[i.node, i.gpu_index], gpu_percent=i.gpu_percent)
        for i in service.instances
    ]


def _job(draft: Draft, job: ClusterJob) -> None:
    draft.add_job(
        job.name,
        job.team,
        priority=job.priority,
        work_s=job.work_s,
        checkpoint=job.checkpoint,
        checkpoint_period_s=job.checkpoint_period_s,
        gpu_models=list(job.gpu_models),
        pools=list(job.pools),
        command=list(job.command),
        labels=sorted(set(job.labels)),
        profile_key=profiles.key_of(None, job.image, job.command, job.gpu_models, job.gpus),
        **{name: getattr(job, name) for name in _NEEDS},
        **Profile(**_profile(job)).rounded().columns(),
    )


def _profile(row: ClusterService | ClusterJob) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _PROFILE}
