"""What should be true of one node: the message that its agent converges to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

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
from console.errors import Unavailable
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


def build(node: Node, now: datetime, nonce: str) -> DesiredState:
    """All of it, from one moment. Raises Unavailable when the node changes faster than we read.

    Two states of one generation must be equal: a node refuses the second otherwise.
    """
    for _ in range(TRIES):
        before = _generation(node)
        state = _read(node, before, nonce)
        if _generation(node) == before:
            return state
    raise Unavailable(
        f"The desired state of {node} keeps changing; it is sent with the next change."
    )


def _generation(node: Node) -> int:
    return Node.objects.values_list("generation", flat=True).get(pk=node.pk)


def _read(node: Node, generation: int, nonce: str) -> DesiredState:
    fresh = Node.objects.select_related("pool__policy__current__policy").get(pk=node.pk)
    policy = _policy(fresh)
    gpus = list(Gpu.objects.filter(node=node, retired_at=None).order_by("index"))
    return DesiredState(
        generation=generation,
        nonce=nonce,
        lease_s=float(settings.LEASE_S),
        gpus=tuple(_gpu(gpu, fresh, policy.name) for gpu in gpus),
        policies={policy.name: policy},
        placements=tuple(_placements(node)),
        services=tuple(_services(node)),
        cordoned=fresh.cordoned or fresh.draining,
    )


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


def _placements(node: Node) -> Iterable[DesiredPlacement]:
    live = (
        Placement.objects.filter(gpu__node=node, state__in=lifecycle.LIVE)
        .select_related("job", "gpu")
        .order_by("pk")
    )
    told = Eviction.objects.filter(placement__in=live, state__in=UNDER_WAY)
    stops = {eviction.placement_id: _stop(eviction) for eviction in told}
    measures = profiling.measures(live)
    return [_placement(one, stops.get(one.pk), measures.get(one.pk)) for one in live]


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


def _services(node: Node) -> Sequence[DesiredService]:
    instances = (
        OnlineInstance.objects.filter(gpu__node=node, gpu__retired_at=None)
        .select_related("service", "gpu")
        .order_by("gpu__index", "pk")
    )
    return [_service(instance) for instance in instances]


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
