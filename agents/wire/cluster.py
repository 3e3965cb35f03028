"""The cluster file: what `manage.py import_cluster` reads and a simulated fleet is built from.

One JSON document (YAML is accepted by the importer, of which JSON is a part). Percent values are
of one whole GPU of the model named; sizes are bytes, times seconds.
"""

from __future__ import annotations

import msgspec

from agents.wire.names import Checkpoint, RuntimeKind


class ClusterGpu(msgspec.Struct, frozen=True):
    uuid: str
    model: str
    memory_bytes: int


class ClusterNode(msgspec.Struct, frozen=True):
    name: str
    pool: str
    gpus: tuple[ClusterGpu, ...]
    labels: dict[str, str] = {}
    runtime: RuntimeKind = RuntimeKind.SIMULATED
    cpu_cores: float | None = None
    host_memory_bytes: int | None = None


class ClusterInstance(msgspec.Struct, frozen=True):
    """One instance on one GPU, or on the part `gpu_percent` of it."""

    node: str
    gpu_index: int
    gpu_percent: float = 100.0


class ClusterService(msgspec.Struct, frozen=True):
    """An online service. The profile is one instance at `peak_qps`."""

    name: str
    team: str
    pool: str
    tier: int
    slo_p99_ms: float
    peak_qps: float
    base_p99_ms: float
    sm_percent: float
    gpu_util_percent: float
    memory_bytes: int
    memory_bandwidth_percent: float
    instances: tuple[ClusterInstance, ...]


class ClusterJob(msgspec.Struct, frozen=True):
    """An offline job. `work_s` is its length alone on one GPU."""

    name: str
    team: str
    work_s: float
    sm_percent: float
    gpu_util_percent: float
    memory_bytes: int
    memory_bandwidth_percent: float
    priority: int = 0
    checkpoint: Checkpoint = Checkpoint.ON_SIGTERM
    checkpoint_period_s: float = 600.0
    gpu_models: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    image: str = ""
    gpus: int = 1
    cpu_cores: float | None = None
    host_memory_bytes: int | None = None
    labels: tuple[str, ...] = ()


class Cluster(msgspec.Struct, frozen=True):
    name: str
    nodes: tuple[ClusterNode, ...]
    services: tuple[ClusterService, ...] = ()
    jobs: tuple[ClusterJob, ...] = ()


_decoder: msgspec.json.Decoder[Cluster] = msgspec.json.Decoder(Cluster)


def decode(data: bytes) -> Cluster:
    """Raises msgspec.DecodeError naming the field that does not fit."""
    return _decoder.decode(data)


def encode(cluster: Cluster) -> bytes:
    return msgspec.json.format(msgspec.json.encode(cluster), indent=1)
