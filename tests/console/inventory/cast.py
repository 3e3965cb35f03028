"""A small fixed fleet, and messages from it."""

from __future__ import annotations

from datetime import UTC, datetime

from agents.wire.messages import GpuInventory, Hello
from agents.wire.names import RuntimeKind
from console.inventory.models import Gpu, Node, Pool

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
GIB = 1 << 30


def a_pool(name: str = "web", **fields) -> Pool:
    return Pool.objects.get_or_create(name=name, defaults=fields)[0]


def a_node(name: str = "node-01", pool: Pool | None = None, gpus: int = 0, **fields) -> Node:
    node = Node.objects.create(
        name=name, pool=pool or a_pool(), **{"state_since": NOW, "last_seen_at": NOW, **fields}
    )
    for index in range(gpus):
        a_gpu(node, index)
    return node


def a_gpu(node: Node, index: int = 0, **fields) -> Gpu:
    return Gpu.objects.create(
        node=node,
        index=index,
        **{
            "uuid": f"GPU-{node.name}-{index}",
            "model": "A100",
            "memory_bytes": 40 * GIB,
            "state": "HEALTHY",
            "state_since": NOW,
            **fields,
        },
    )


def claim(index: int = 0, uuid: str | None = None, **fields) -> GpuInventory:
    return GpuInventory(
        index=index,
        uuid=uuid or f"GPU-node-01-{index}",
        model=fields.pop("model", "A100"),
        memory_bytes=fields.pop("memory_bytes", 40 * GIB),
        **fields,
    )


def a_hello(*gpus: GpuInventory, node: str = "node-01", generation: int = 0) -> Hello:
    return Hello(
        node=node,
        protocol=(1, 1),
        agent_version="0.1.0",
        boot_id="boot-1",
        generation=generation,
        nonce="nonce-1",
        runtime=RuntimeKind.SIMULATED,
        gpus=gpus,
        capabilities=("mps",),
    )
