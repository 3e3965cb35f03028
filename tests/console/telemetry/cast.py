"""The rows that these tests play with: a pool, a node with GPUs, a service, a person."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from agents.wire.messages import EventBatch
from agents.wire.names import GpuState, SharingMode
from console.accounts.models import Role, RoleBinding, User
from console.inventory.models import Gpu, Node, Pool
from console.scheduling.models import Placement
from console.telemetry import events
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService, Team
from tests.console.telemetry.fleet import CARD_BYTES, GIB

T = datetime(2026, 11, 27, 10, 38, tzinfo=UTC)
TOKEN = "made-up-token"


def pool(name: str = "search-eu", mode: SharingMode = SharingMode.ENFORCE) -> Pool:
    return Pool.objects.get_or_create(name=name, defaults={"sharing_mode": mode})[0]


def node(name: str = "node-07", *, gpus: int = 2, token: str = TOKEN, **facts: object) -> Node:
    given = {"pool": pool(), "state": Node.State.CONNECTED, "state_since": T, **facts}
    made = Node.objects.create(
        name=name, token_sha256=hashlib.sha256(token.encode()).hexdigest(), **given
    )
    for index in range(gpus):
        gpu(made, index)
    return made


def gpu(owner: Node, index: int) -> Gpu:
    return Gpu.objects.create(
        node=owner,
        index=index,
        uuid=f"GPU-{owner.name}-{index}",
        model="A100 SXM4",
        memory_bytes=CARD_BYTES,
        power_limit_w=400,
        sm_clock_max_mhz=1410,
        sharing_mode=SharingMode.ENFORCE,
        state=GpuState.HEALTHY,
        state_since=T,
    )


def team() -> Team:
    return Team.objects.get_or_create(name="search")[0]


def service(on: Gpu, name: str = "search-rank", slo_p99_ms: float | None = 40.0) -> OnlineService:
    made = OnlineService.objects.create(
        name=name, team=team(), pool=on.node.pool, slo_p99_ms=slo_p99_ms,
        sm_percent=40, gpu_util_percent=60, memory_bytes=30 * GIB,
    )  # fmt: skip
    OnlineInstance.objects.create(service=made, gpu=on)
    return made


def job(name: str = "resnet-31", **facts: object) -> OfflineJob:
    given = {
        "team": team(), "state_since": T, "submitted_at": T, "work_s": 3_600,
        "sm_percent": 50, "gpu_util_percent": 80, "memory_bytes": 10 * GIB,
    }  # fmt: skip
    return OfflineJob.objects.create(name=name, **{**given, **facts})


def placement(on: Gpu, of: OfflineJob | None = None, **facts: object) -> Placement:
    given = {
        "state": "RUNNING", "state_since": T, "created_at": T, "started_at": T,
        "sm_share_percent": 30, "memory_quota_bytes": 12 * GIB,
    }  # fmt: skip
    return Placement.objects.create(job=of or job(), gpu=on, **{**given, **facts})


def person(name: str = "m.ortega", role: Role = Role.VIEWER, pool: Pool | None = None) -> User:
    """`pool` None: with this role everywhere."""
    user = User.objects.create_user(name, password="made-up")
    RoleBinding.objects.create(user=user, role=role, pool=pool)
    return user


def persist(node: Node, batch: EventBatch, now: datetime) -> int:
    """The number that is acknowledged then; raises what the node is refused for."""
    answer = events.persist_many({node.pk: batch}, now)[node.pk]
    if isinstance(answer, Exception):
        raise answer
    return answer
