"""Which GPUs there are: the rows of the live grid, and the document that names them to browsers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from agents.wire.names import SharingMode
from console.inventory.models import Gpu, Node
from console.telemetry.latest import Facts, Floats, no_facts
from console.telemetry.latest import Layout as Layout
from console.workloads.models import OnlineInstance

_NONE: Final = -1


@dataclass(frozen=True)
class _Gpu:
    id: int
    index: int
    model: str
    memory_bytes: int
    power_limit_w: float | None
    mode: str
    disabled: bool
    node_name: str
    node_state: str
    node_source: str
    rack: str | None
    pool_id: int
    pool_name: str
    pool_mode: str


def empty() -> Layout:
    return Layout(0, no_facts(), b'{"epoch":0,"gpus":{}}')


def load(known: Layout | None = None) -> Layout:
    """The present fleet: two queries, retired GPUs left out. `known` itself while it still holds:
    to find that out costs a fraction of making another."""
    rows = Gpu.objects.filter(retired_at=None).order_by("id").values_list(
        "id", "index", "model", "memory_bytes", "power_limit_w", "sharing_mode", "disabled",
        "node__name", "node__state", "node__source", "node__labels__rack",
        "node__pool_id", "node__pool__name", "node__pool__sharing_mode",
    )  # fmt: skip
    found = list(rows), _services()
    if known is not None and found == known.found:
        return known
    return replace(build([_Gpu(*row) for row in found[0]], found[1]), found=found)


def _services() -> dict[int, tuple[str, float | None]]:
    """GPU id → name and SLO of the service there; the most important one where there are more."""
    rows = OnlineInstance.objects.order_by("-service__tier", "-service__name").values_list(
        "gpu_id", "service__name", "service__slo_p99_ms"
    )
    return {gpu_id: (name, slo_p99_ms) for gpu_id, name, slo_p99_ms in rows}


def build(gpus: Sequence[_Gpu], services: dict[int, tuple[str, float | None]]) -> Layout:
    """Facts and document of `gpus`, which ascend by id."""
    pools = _Numbered([gpu.pool_name for gpu in gpus])
    nodes = _Numbered([gpu.node_name for gpu in gpus])
    models = _Numbered([gpu.model for gpu in gpus])
    names = _Numbered([services[gpu.id][0] if gpu.id in services else None for gpu in gpus])
    first = {gpu.node_name: gpu for gpu in reversed(gpus)}
    content: dict[str, Any] = {
        "pools": pools.names,
        "nodes": {
            "name": nodes.names,
            "pool": [pools.number[first[name].pool_name] for name in nodes.names],
            "rack": [first[name].rack for name in nodes.names],
            "agent": [first[name].node_source == Node.Source.AGENT for name in nodes.names],
        },
        "models": models.names,
        "services": names.names,
        "gpus": {
            "id": [gpu.id for gpu in gpus],
            "index": [gpu.index for gpu in gpus],
            "node": nodes.of_each,
            "model": models.of_each,
            "service": names.of_each,
            "memory_bytes": [gpu.memory_bytes for gpu in gpus],
        },
    }
    epoch = zlib.crc32(msgspec.json.encode(content)) or 1
    return Layout(
        epoch,
        _facts(gpus, services, names.of_each),
        msgspec.json.encode({"epoch": epoch, **content}),
    )


class _Numbered:
    """Distinct names in order of appearance, and the number of each entry; None has no number."""

    def __init__(self, entries: Sequence[str | None]) -> None:
        self.number: dict[str, int] = {}
        for entry in entries:
            if entry is not None:
                self.number.setdefault(entry, len(self.number))
        self.names = list(self.number)
        self.of_each = [_NONE if entry is None else self.number[entry] for entry in entries]


def _facts(
    gpus: Sequence[_Gpu], services: dict[int, tuple[str, float | None]], service: list[int]
) -> Facts:
    slo = [services[gpu.id][1] if gpu.id in services else None for gpu in gpus]
    enforced = [gpu.mode == gpu.pool_mode == SharingMode.ENFORCE for gpu in gpus]
    return Facts(
        ids=np.array([gpu.id for gpu in gpus], np.uint32),
        memory_bytes=_floats([gpu.memory_bytes for gpu in gpus]),
        power_limit_w=_floats([gpu.power_limit_w for gpu in gpus]),
        slo_p99_ms=_floats(slo),
        pool=np.array([gpu.pool_id for gpu in gpus], np.int64),
        service=np.array(service, np.int32),
        agent=np.array([gpu.node_source == Node.Source.AGENT for gpu in gpus], np.bool_),
        lost=np.array([gpu.node_state == Node.State.LOST for gpu in gpus], np.bool_),
        enforce=np.array(enforced, np.bool_),
        by_person=np.array([gpu.disabled for gpu in gpus], np.bool_),
    )


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, np.float64).astype(np.float32)
