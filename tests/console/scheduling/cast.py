"""A small fleet that shares, jobs that wait for it, and what its nodes tell."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from agents.wire.ids import uuid7
from agents.wire.messages import Event, GpuStatus, PlacementStatus, Status
from agents.wire.names import EventKind, GpuState, PlacementState
from console.inventory.models import Gpu, Node, Pool
from console.policies import services as policies
from console.scheduling.calls import Call
from console.scheduling.models import Placement, Round
from console.scheduling.plan import Move, Placing, Plan
from console.scheduling.rounds import run_round
from console.scheduling.snapshot import Snapshot
from console.telemetry.latest import LiveGpu
from console.workloads.models import OfflineJob, Team
from tests.console.inventory.cast import GIB, NOW, a_gpu, a_node, a_pool
from workers.matching import decide as matching
from workers.prediction.analytic import Analytic


def a_sharing_pool(name: str = "web", mode: str = "enforce") -> Pool:
    policies.ensure_defaults(NOW, demo=False)
    return a_pool(name, sharing_mode=mode, policy=policies.default_policy())


def sharing_gpus(count: int = 2, name: str = "node-01", mode: str = "enforce") -> list[Gpu]:
    """GPUs of one connected node that take offline work."""
    pool = a_sharing_pool(mode=mode)
    node = a_node(name, pool, state="CONNECTED", source=Node.Source.AGENT)
    return [a_gpu(node, index, sharing_mode=mode) for index in range(count)]


def a_waiting_job(name: str = "resnet-31", **values: Any) -> OfflineJob:
    team, _ = Team.objects.get_or_create(name="vision")
    facts = {
        "team": team,
        "state": "QUEUED",
        "state_since": NOW,
        "submitted_at": NOW,
        "sm_percent": 60,
        "gpu_util_percent": 60,
        "memory_bytes": 8 * GIB,
        "work_s": 36_000,
    }
    return OfflineJob.objects.create(name=name, **facts | values)


def a_running(job: OfflineJob, gpu: Gpu, **values: Any) -> Placement:
    OfflineJob.objects.filter(pk=job.pk).update(state="PLACED")
    facts = {
        "state": "RUNNING",
        "state_since": NOW,
        "created_at": NOW,
        "started_at": NOW,
        "sm_share_percent": 60,
        "memory_quota_bytes": 20 * GIB,
    }
    return Placement.objects.create(job=job, gpu=gpu, **facts | values)


def live(*gpus: Gpu, **values: Any) -> dict[int, LiveGpu]:
    """Fresh samples of idle GPUs, but for `values`."""
    nothing: dict[str, Any] = dict.fromkeys((field.name for field in fields(LiveGpu)), None)
    idle: dict[str, Any] = {"at": NOW.timestamp(), "age_s": 0.5, "state": GpuState.HEALTHY}
    idle |= {"sm_online_percent": 0.0, "gpu_util_percent": 0.0, "memory_bandwidth_percent": 0.0}
    return {gpu.pk: LiveGpu(**nothing | idle | {"gpu_id": gpu.pk} | values) for gpu in gpus}


BY_TEST = Call("test")


def decide(snapshot: Snapshot) -> Plan:
    return matching.decide(snapshot, Analytic())


def a_round(
    kind: Round.Kind = Round.Kind.ENFORCE,
    holder: str = "worker-1",
    now: datetime = NOW,
    decided=decide,
    call: Call = BY_TEST,
) -> Round | None:
    return run_round(kind, call, now, holder, decided)


def nothing_decided(snapshot: Snapshot) -> Plan:
    return Plan((), (), (), 0.0, 0.0, 0.0, 0, {}, {})


def one_each(snapshot: Snapshot):
    """Place the jobs that wait on the GPUs that are free, in order."""
    taken = {one.gpu_id for one in snapshot.running}
    free = [gpu for gpu in snapshot.gpus if gpu.id not in taken]
    pairs = zip(snapshot.jobs, free, strict=False)
    placings = tuple(Placing(job.id, gpu.id, 40.0, 8 * GIB, 0.8) for job, gpu in pairs)
    return replace(nothing_decided(snapshot), placings=placings)


def a_move(placement: Placement, to: Gpu, chain: int = 0, gain: float = 0.2) -> Move:
    evidence = {"gain": gain, "cost_work_s": 60.0, "pays_back_s": 300.0, "throughput_now": 0.3}
    return Move(
        placement_id=placement.pk,
        job_id=placement.job_id,
        from_gpu_id=placement.gpu_id,
        to_gpu_id=to.pk,
        gain=gain,
        cost_work_s=60.0,
        pays_back_s=300.0,
        why="It runs faster there.",
        evidence=evidence,
        chain=chain,
    )


def moving(*moves: Move):
    """What decides on these moves and nothing else."""
    return lambda snapshot: replace(nothing_decided(snapshot), moves=moves)


def a_status(node: Node, *placements: PlacementStatus, gpus: Any = (), **values: Any) -> Status:
    facts: dict[str, Any] = {"nonce": "n", "observed_generation": 1, "policy_versions": {}}
    return Status(gpus=tuple(gpus), placements=placements, **facts | values)


def a_gpu_status(index: int = 0, state: GpuState = GpuState.HEALTHY, **values: Any) -> GpuStatus:
    return GpuStatus(index, state, NOW.timestamp(), **values)


def a_placement_status(
    placement: Placement, state: PlacementState = PlacementState.RUNNING, **values: Any
) -> PlacementStatus:
    return PlacementStatus(str(placement.pk), state, **values)


def an_end(placement: Placement, reason: str = "finished", **data: Any) -> Event:
    return an_event(EventKind.PLACEMENT_ENDED, placement, reason=reason, **data)


def an_event(kind: EventKind, placement: Placement, **data: Any) -> Event:
    return Event(
        seq=1,
        event_id=str(uuid7()),
        kind=kind,
        at=NOW.timestamp(),
        gpu_index=placement.gpu.index,
        placement_id=str(placement.pk),
        data=data,
    )
