"""What should be true of one node: the message that its agent converges to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from django.conf import settings

from agents.wire.messages import (
    DesiredGpu,
    DesiredPlacement,
    DesiredService,
    DesiredState,
    Measure,
    Profile,
    Stop,
)
from agents.wire.names import Checkpoint, Origin
from agents.wire.policy import AgentPolicy
from console.evictions.lifecycle import UNDER_WAY
from console.evictions.models import Eviction
from console.inventory import modes
from console.inventory.models import Gpu, Node
from console.policies import rules
from console.policies import services as policies
from console.scheduling import lifecycle, profiling
from console.scheduling.models import Placement
from console.workloads.models import Footprint, OfflineJob, OnlineInstance

# A change between the first and the last query shows in the generation: then we read again.
TRIES: Final = 5

Row = TypeVar("Row")


def build_many(nonces: Mapping[int, str]) -> dict[int, DesiredState]:
    """All of it, each from one moment, by node id, with the nonce that each is to echo. A node that
    changes faster than we read, and one that is gone, is left out.

    Two states of one generation must be equal: a node refuses the second otherwise.
    """
    built: dict[int, DesiredState] = {}
    wanted = set(nonces)
    for _ in range(TRIES):
        before = _generations(wanted)
        states = _read(before, nonces)
        after = _generations(wanted)
        built |= {pk: state for pk, state in states.items() if after.get(pk) == before[pk]}
        wanted -= built.keys()
        if not wanted:
            break
    return built


def _generations(node_ids: Collection[int]) -> dict[int, int]:
    return dict(Node.objects.filter(pk__in=node_ids).values_list("pk", "generation"))


def _read(generations: Mapping[int, int], nonces: Mapping[int, str]) -> dict[int, DesiredState]:
    nodes = Node.objects.select_related("pool__policy__current__policy").in_bulk(generations)
    policies_of = _policies(nodes.values())
    gpus = Gpu.objects.filter(node__in=nodes, retired_at=None).order_by("index")
    gpus_of = _by_node(gpus, lambda gpu: gpu.node_id)
    placements_of, services_of = _placements(nodes), _services(nodes)
    states = {}
    for pk, node in nodes.items():
        policy = policies_of[node.pool_id]
        states[pk] = DesiredState(
            generation=generations[pk],
            nonce=nonces[pk],
            lease_s=float(settings.LEASE_S),
            gpus=tuple(_gpu(gpu, node, policy.name) for gpu in gpus_of[pk]),
            policies={policy.name: policy},
            placements=tuple(placements_of[pk]),
            services=tuple(services_of[pk]),
            cordoned=node.cordoned or node.draining,
        )
    return states


def _by_node(rows: Iterable[Row], node_of: Callable[[Row], int]) -> defaultdict[int, list[Row]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[node_of(row)].append(row)
    return found


def _policies(nodes: Iterable[Node]) -> dict[int, AgentPolicy]:
    """By pool id."""
    pools = {node.pool_id: node for node in nodes}
    return {pool_id: _policy(node) for pool_id, node in pools.items()}


def _policy(node: Node) -> AgentPolicy:
    version = policies.version_for(node.pool)
    slug = version.policy.slug
    body = rules.parse(version.body)
    return rules.to_agent_policy(
        version.policy_id, version.number, f"{slug}@{version.number}", body
    )


def _gpu(gpu: Gpu, node: Node, policy: str) -> DesiredGpu:
    mode = modes.lower(node.pool.sharing_mode, gpu.sharing_mode)
    return DesiredGpu(gpu.index, mode, policy, gpu.disabled, gpu.disabled_reason)


def _placements(node_ids: Collection[int]) -> defaultdict[int, list[DesiredPlacement]]:
    live = (
        Placement.objects.filter(gpu__node__in=node_ids, state__in=lifecycle.LIVE)
        .select_related("job", "gpu")
        .order_by("pk")
    )
    told = Eviction.objects.filter(placement__in=live, state__in=UNDER_WAY)
    stops = {eviction.placement_id: _stop(eviction) for eviction in told}
    measures = profiling.measures(live)
    rows_of = _by_node(live, lambda one: one.gpu.node_id)
    found: defaultdict[int, list[DesiredPlacement]] = defaultdict(list)
    for node_id, rows in rows_of.items():
        found[node_id] = [_placement(one, stops.get(one.pk), measures.get(one.pk)) for one in rows]
    return found


def _stop(eviction: Eviction) -> Stop:
    reason = eviction.reason or eviction.why
    return Stop(str(eviction.pk), reason, eviction.grace_s, Origin(eviction.origin))


def _placement(
    placement: Placement, stop: Stop | None, measure: Measure | None
) -> DesiredPlacement:
    job = placement.job
    return DesiredPlacement(
        placement_id=str(placement.pk),
        job_id=str(job.pk),
        job_name=job.name,
        gpu_index=placement.gpu.index,
        sm_share_percent=placement.sm_share_percent,
        memory_quota_bytes=placement.memory_quota_bytes,
        profile=_profile_of(job),
        checkpoint=Checkpoint(job.checkpoint),
        checkpoint_period_s=job.checkpoint_period_s,
        resume_work_s=placement.resume_work_s,
        command=tuple(job.command),
        duty_percent=placement.duty_percent,
        stop=stop,
        measure=measure,
    )


def _services(node_ids: Collection[int]) -> defaultdict[int, list[DesiredService]]:
    instances = (
        OnlineInstance.objects.filter(gpu__node__in=node_ids, gpu__retired_at=None)
        .select_related("service", "gpu")
        .order_by("gpu__index", "pk")
    )
    rows_of = _by_node(instances, lambda one: one.gpu.node_id)
    found: defaultdict[int, list[DesiredService]] = defaultdict(list)
    for node_id, rows in rows_of.items():
        found[node_id] = [_service(one) for one in rows]
    return found


def _service(instance: OnlineInstance) -> DesiredService:
    service = instance.service
    return DesiredService(
        name=service.name,
        gpu_index=instance.gpu.index,
        slo_p99_ms=service.slo_p99_ms,
        metrics_url=service.metrics_url,
        profile=_profile(service, service.name, 0.0, ""),
        load_qps=service.peak_qps,
    )


def _profile_of(job: OfflineJob) -> Profile:
    profile = _profile(job, job.name, job.work_s, job.profile_gpu_model)
    return msgspec.structs.replace(profile, step_s=job.step_s, source=job.profile_source)


def _profile(footprint: Footprint, name: str, work_s: float, gpu_model: str) -> Profile:
    return Profile(
        name=name,
        sm_percent=footprint.sm_percent,
        gpu_util_percent=footprint.gpu_util_percent,
        memory_bytes=footprint.memory_bytes,
        memory_bandwidth_percent=footprint.memory_bandwidth_percent,
        work_s=work_s,
        gpu_model=gpu_model,
    )
