"""A job and a service on one GPU, and what their node tells of a fault there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from agents.wire.messages import Event
from agents.wire.names import EventKind
from console.faults import services
from console.faults.models import Fault
from console.inventory.models import Gpu
from console.scheduling.models import Placement
from tests.console.inventory.cast import NOW, a_node
from tests.console.workloads.cast import a_job, a_service, placed

CODE = 700


def a_shared_gpu(name: str = "node-17") -> Gpu:
    """With service search-rank and job resnet-31 on it."""
    gpu = a_node(name, gpus=1, state="CONNECTED").gpus.get()
    a_service(gpu, f"search-rank-{name}" if name != "node-17" else "search-rank")
    placed(gpu, a_job(f"resnet-31-{name}" if name != "node-17" else "resnet-31"))
    return gpu


def guest(gpu: Gpu) -> Placement:
    return gpu.placements.select_related("job").get()


def offline(gpu: Gpu, pid: int = 4_021) -> dict[str, Any]:
    placement = guest(gpu)
    return {
        "pid": pid,
        "side": "offline",
        "name": placement.job.name,
        "placement_id": str(placement.pk),
    }


def online(gpu: Gpu, pid: int = 911) -> dict[str, Any]:
    name = gpu.instances.select_related("service").get().service.name
    return {"pid": pid, "side": "online", "name": name, "placement_id": None}


def data(gpu: Gpu, fault_id: UUID | str | None = None, **changes: Any) -> dict[str, Any]:
    """What the first telling of a fault carries: the guest was first and hit the service."""
    return {
        "fault_id": str(fault_id or uuid4()),
        "why": "client 4021 had an illegal access",
        "first": offline(gpu),
        "first_by": "the MPS server's log",
        "code": CODE,
        "others": [online(gpu)],
        "moments": [{"after_s": 0.0, "what": "client 4021 had an illegal access"}],
        "recovered_s": None,
        "ended": False,
    } | changes


def report(gpu: Gpu, seq: int, told: dict[str, Any], now: datetime = NOW) -> Event:
    return Event(
        seq=seq,
        event_id=str(uuid4()),
        kind=EventKind.GPU_FAULT,
        at=now.timestamp(),
        gpu_index=gpu.index,
        data=told,
    )


def tell(
    gpu: Gpu,
    seq: int = 1,
    told: dict[str, Any] | None = None,
    now: datetime = NOW,
    **changes: Any,
) -> Fault:
    """The fault as it stands after one telling."""
    told = data(gpu, **changes) if told is None else told
    services.agent_told(gpu.node, report(gpu, seq, told, now), now)
    return Fault.objects.get(pk=told["fault_id"])
