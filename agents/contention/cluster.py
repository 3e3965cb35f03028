"""A plausible cluster of any size: pools, services with instances, and a queue of jobs.

The shapes are ours, the sizes stated assumptions about a company that serves models: no trace was
used. Online services take a quarter to a third of a card's SMs at their peak and leave memory
beside them, as the case for sharing supposes; some jobs are too large for some cards.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agents.contention.models import model_of
from agents.wire.cluster import (
    Cluster,
    ClusterGpu,
    ClusterInstance,
    ClusterJob,
    ClusterNode,
    ClusterService,
)
from agents.wire.names import Checkpoint

_GIB: Final = 1 << 30
# The part of GPUs that serve; the rest is free.
OCCUPIED: Final = 0.86
# Jobs per GPU in the queue: enough for half a day of the world's clock with every GPU shared.
JOBS_PER_GPU: Final = 4
MOST_JOBS: Final = 20_000
# Beyond this many instances a service is split into several, as teams do.
_MOST_INSTANCES: Final = 200


@dataclass(frozen=True, slots=True)
class Pool:
    """One kind of node; `part` of the cluster's nodes."""

    name: str
    model: str
    part: float
    rack: str


@dataclass(frozen=True, slots=True)
class Service:
    """An online service as its owners know it, at peak on one instance; SLO and p99 in ms."""

    pool: str
    name: str
    team: str
    tier: int
    slo_ms: float
    sm: float
    util: float
    memory_gib: float
    bandwidth: float
    qps: float


@dataclass(frozen=True, slots=True)
class Family:
    """Jobs of one kind; `hours` is the median length alone on a card."""

    name: str
    team: str
    sm: float
    util: float
    memory_gib: float
    bandwidth: float
    hours: float


POOLS: Final = (
    Pool("search-eu", "NVIDIA A100-SXM4-80GB", 0.375, "r1"),
    Pool("ads-eu", "NVIDIA A100-SXM4-40GB", 0.25, "r2"),
    Pool("feed-us", "NVIDIA H100 80GB HBM3", 0.1875, "r3"),
    Pool("media-us", "NVIDIA A10", 0.1875, "r4"),
)

SERVICES: Final = (
    Service("search-eu", "search-rank", "search", 1, 40, 30, 72, 22, 24, 455),
    Service("search-eu", "query-rewrite", "search", 2, 60, 24, 60, 12, 16, 520),
    Service("search-eu", "qa-answer", "assistant", 2, 180, 36, 80, 34, 34, 120),
    Service("search-eu", "doc-embed", "search", 2, 90, 27, 66, 18, 22, 380),
    Service("ads-eu", "ads-ctr", "ads", 1, 25, 28, 70, 11, 22, 2_000),
    Service("ads-eu", "ads-bid", "ads", 1, 20, 25, 66, 8, 18, 2_600),
    Service("ads-eu", "fraud-score", "risk", 1, 50, 22, 55, 7, 14, 800),
    Service("feed-us", "feed-embed", "feed", 2, 35, 25, 64, 22, 22, 1_500),
    Service("feed-us", "feed-rank", "feed", 1, 30, 30, 72, 26, 28, 1_800),
    Service("feed-us", "translate", "assistant", 2, 120, 34, 76, 30, 30, 220),
    Service("media-us", "speech-asr", "media", 2, 150, 33, 74, 7, 26, 90),
    Service("media-us", "image-tag", "media", 3, 90, 29, 68, 5, 22, 260),
    Service("media-us", "ocr-scan", "media", 3, 200, 26, 60, 4, 16, 120),
)

FAMILIES: Final = (
    Family("resnet", "vision", 52, 88, 9, 30, 1.4),
    Family("vit", "vision", 60, 92, 14, 28, 1.8),
    Family("unet", "vision", 56, 90, 12, 36, 1.6),
    Family("yolo", "vision", 46, 82, 7, 26, 1.2),
    Family("mobilenet", "vision", 34, 72, 5, 22, 1.0),
    Family("clip", "research", 62, 93, 20, 34, 2.3),
    Family("bert", "research", 58, 92, 13, 30, 1.7),
    Family("t5", "research", 64, 94, 24, 38, 2.5),
    Family("gpt", "research", 72, 97, 34, 46, 3.4),
    Family("lora", "research", 54, 90, 28, 40, 1.6),
    Family("whisper", "speech", 50, 86, 11, 28, 1.6),
    Family("conformer", "speech", 48, 84, 8, 24, 1.4),
    Family("dlrm", "ranking", 36, 70, 26, 52, 1.3),
    Family("deepfm", "ranking", 30, 66, 8, 34, 0.9),
    Family("graphsage", "ranking", 26, 58, 16, 40, 1.2),
)


def build_cluster(nodes: int, gpus: int, seed: int) -> Cluster:
    """`nodes` × `gpus` GPUs in four pools; the same arguments give the same cluster."""
    rng = np.random.default_rng(seed)
    built = tuple(_nodes(nodes, gpus, rng))
    return Cluster(
        name=f"simulated, {nodes} × {gpus} GPUs",
        nodes=built,
        services=tuple(_services(built, rng)),
        jobs=tuple(_jobs(nodes * gpus, rng)),
    )


def _nodes(nodes: int, gpus: int, rng: np.random.Generator) -> Iterable[ClusterNode]:
    ends = np.cumsum([pool.part for pool in POOLS])
    width = max(2, len(str(nodes)))
    for number in range(nodes):
        pool = POOLS[int(np.searchsorted(ends, (number + 0.5) / nodes))]
        yield ClusterNode(
            name=f"node-{number + 1:0{width}d}",
            pool=pool.name,
            gpus=tuple(_gpu(pool.model, rng) for _ in range(gpus)),
            labels={"rack": f"{pool.rack}-{number // 8 + 1}", "model": pool.model},
        )


def _gpu(model: str, rng: np.random.Generator) -> ClusterGpu:
    return ClusterGpu(f"GPU-{uuid.UUID(bytes=rng.bytes(16))}", model, model_of(model).memory_bytes)


def _services(nodes: Sequence[ClusterNode], rng: np.random.Generator) -> Iterable[ClusterService]:
    for pool in POOLS:
        places = _serving_gpus([node for node in nodes if node.pool == pool.name], rng)
        services = _copies([one for one in SERVICES if one.pool == pool.name], len(places))
        weights = rng.uniform(0.7, 1.3, len(services))
        ends = np.round(np.cumsum(weights) / weights.sum() * len(places)).astype(int)
        for service, start, end in zip(services, [0, *ends], ends, strict=False):
            if end > start:
                yield _service(service, tuple(sorted(places[start:end], key=_by_place)), rng)


def _serving_gpus(nodes: Sequence[ClusterNode], rng: np.random.Generator) -> list[ClusterInstance]:
    places = [ClusterInstance(node.name, at) for node in nodes for at in range(len(node.gpus))]
    chosen = rng.permutation(len(places))[: round(OCCUPIED * len(places))]
    return [places[at] for at in chosen]


def _by_place(instance: ClusterInstance) -> tuple[str, int]:
    return instance.node, instance.gpu_index


def _copies(services: Sequence[Service], instances: int) -> list[tuple[str, Service]]:
    copies = max(1, math.ceil(instances / (len(services) * _MOST_INSTANCES)))
    return [
        (one.name if copy == 1 else f"{one.name}-{copy}", one)
        for copy in range(1, copies + 1)
        for one in services
    ]


def _service(
    named: tuple[str, Service], instances: tuple[ClusterInstance, ...], rng: np.random.Generator
) -> ClusterService:
    name, one = named
    # A service runs with room under its SLO: alone at its peak it uses 50 to 62 percent of it.
    base_p99_ms = one.slo_ms * float(rng.uniform(0.50, 0.62))
    return ClusterService(
        name=name,
        team=one.team,
        pool=one.pool,
        tier=one.tier,
        slo_p99_ms=one.slo_ms,
        peak_qps=round(one.qps * float(rng.uniform(0.9, 1.1))),
        base_p99_ms=round(base_p99_ms, 1),
        sm_percent=one.sm,
        gpu_util_percent=one.util,
        memory_bytes=int(one.memory_gib * _GIB),
        memory_bandwidth_percent=one.bandwidth,
        instances=instances,
    )


def _jobs(gpus: int, rng: np.random.Generator) -> Iterable[ClusterJob]:
    count = min(JOBS_PER_GPU * gpus, MOST_JOBS)
    numbers = {family.name: int(rng.integers(2, 30)) for family in FAMILIES}
    for _ in range(count):
        family = FAMILIES[int(rng.integers(len(FAMILIES)))]
        numbers[family.name] += 1
        yield _job(family, numbers[family.name], rng)


def _job(family: Family, number: int, rng: np.random.Generator) -> ClusterJob:
    size = float(np.clip(np.exp(rng.normal(0.0, 0.25)), 0.6, 1.8))
    hours = family.hours * float(np.clip(np.exp(rng.normal(0.0, 0.5)), 0.4, 3.0))
    large = family.memory_gib * size > 30.0
    return ClusterJob(
        name=f"{family.name}-{number:02d}",
        team=family.team,
        work_s=round(hours * 3_600.0),
        sm_percent=round(min(80.0, family.sm * (0.85 + 0.15 * size)), 1),
        gpu_util_percent=family.util,
        memory_bytes=int(family.memory_gib * size * _GIB),
        memory_bandwidth_percent=family.bandwidth,
        priority=int(rng.choice([0, 0, 0, 0, 1, 1, 2])),
        checkpoint=Checkpoint.NONE if rng.random() < 0.12 else Checkpoint.ON_SIGTERM,
        checkpoint_period_s=float(rng.choice([300, 600, 600, 900, 1_800])),
        gpu_models=("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3") if large else (),
    )
