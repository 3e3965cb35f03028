"""All that contradicts itself in a cluster. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from agents.wire.cluster import Cluster, ClusterJob, ClusterNode, ClusterService
from agents.wire.limits import MAX_GPUS_PER_NODE, MAX_NAME_CHARS

LARGEST_CARD: Final = 1 << 42
MOST_CPU_CORES: Final = 4_096.0
NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}", re.ASCII)
_SLUG: Final = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)

# Section, row in it, sentence.
Finding = tuple[str, int, str]


def check(cluster: Cluster) -> list[Finding]:
    """Everything that does not fit, in the order of the file."""
    sizes = {
        (node.name, index): gpu.memory_bytes
        for node in cluster.nodes
        for index, gpu in enumerate(node.gpus)
    }
    uuids = Counter(gpu.uuid for node in cluster.nodes for gpu in node.gpus)
    found: list[Finding] = []
    found += [("nodes", i, t) for i, node in enumerate(cluster.nodes) for t in _node(node, uuids)]
    found += [
        ("services", i, text)
        for i, service in enumerate(cluster.services)
        for text in _service(service, sizes)
    ]
    found += [("jobs", i, text) for i, job in enumerate(cluster.jobs) for text in _job(job)]
    found += _doubled("nodes", [node.name for node in cluster.nodes])
    found += _doubled("services", [service.name for service in cluster.services])
    return sorted(found)


def _doubled(section: str, names: list[str]) -> Iterator[Finding]:
    counts = Counter(names)
    for index, name in enumerate(names):
        if counts[name] > 1:
            yield section, index, f"the name {name} occurs {counts[name]} times"


def _node(node: ClusterNode, uuids: Counter[str]) -> Iterator[str]:
    yield from _identity(node.name, pool=node.pool)
    yield from _host(node)
    if len(node.gpus) > MAX_GPUS_PER_NODE:
        yield f"{len(node.gpus)} GPUs; a node has at most {MAX_GPUS_PER_NODE}"
    for index, gpu in enumerate(node.gpus):
        if not 0 < len(gpu.uuid) <= 80 or not gpu.uuid.isprintable():
            yield f"GPU {index} has no proper uuid"
        elif uuids[gpu.uuid] > 1:
            yield f"GPU {index}: the uuid {gpu.uuid} occurs {uuids[gpu.uuid]} times"
        if not 0 < gpu.memory_bytes <= LARGEST_CARD:
            yield f"GPU {index} has {gpu.memory_bytes} bytes of memory"
        if not gpu.model.isprintable() or not 0 < len(gpu.model) <= 80:
            yield f"GPU {index} has no proper model name"


def _service(service: ClusterService, sizes: Mapping[tuple[str, int], int]) -> Iterator[str]:
    yield from _identity(service.name, pool=service.pool, team=service.team)
    yield from _footprint(service)
    if not 1 <= service.tier <= 9:
        yield f"tier {service.tier}; expected 1 (most important) to 9"
    for name in ("slo_p99_ms", "peak_qps", "base_p99_ms"):
        if not 0 < getattr(service, name) < math.inf:
            yield f"{name} must be above 0"
    for instance in service.instances:
        slot = (instance.node, instance.gpu_index)
        if slot not in sizes:
            yield f"instance on {instance.node}/{instance.gpu_index}, which is not among the nodes"
        elif sizes[slot] < service.memory_bytes:
            yield f"memory_bytes is more than {instance.node}/{instance.gpu_index} has"
        if not 0 < instance.gpu_percent <= 100:
            yield f"gpu_percent {instance.gpu_percent}; expected above 0, up to 100"


def _job(job: ClusterJob) -> Iterator[str]:
    yield from _identity(job.name, team=job.team)
    yield from _footprint(job)
    if not 0 < job.work_s < math.inf:
        yield "work_s must be above 0"
    if not 0 < job.checkpoint_period_s < math.inf:
        yield "checkpoint_period_s must be above 0"
    if not -1_000 <= job.priority <= 1_000:
        yield f"priority {job.priority}; expected -1000 to 1000"
    if not 1 <= job.gpus <= MAX_GPUS_PER_NODE:
        yield f"gpus {job.gpus}; expected 1 to {MAX_GPUS_PER_NODE}"
    yield from _host(job)


def _host(row: ClusterNode | ClusterJob) -> Iterator[str]:
    if row.cpu_cores is not None and not 0 < row.cpu_cores < MOST_CPU_CORES:
        yield f"cpu_cores {row.cpu_cores}; expected more than 0"
    if row.host_memory_bytes is not None and not 0 < row.host_memory_bytes <= LARGEST_CARD:
        yield f"host_memory_bytes is {row.host_memory_bytes}"


def _identity(name: str, **slugs: str) -> Iterator[str]:
    if not NAME.fullmatch(name):
        yield f"{name[:60]!r} is no name: use letters, digits, dots and hyphens"
    for what, slug in slugs.items():
        if not _SLUG.fullmatch(slug):
            yield f"{what} {slug[:60]!r}: use up to 60 letters, digits and hyphens"


def _footprint(row: ClusterService | ClusterJob) -> Iterator[str]:
    for name in ("sm_percent", "gpu_util_percent", "memory_bandwidth_percent"):
        if not 0 <= getattr(row, name) <= 100:
            yield f"{name} must be 0 to 100"
    if not 0 < row.memory_bytes <= LARGEST_CARD:
        yield f"memory_bytes is {row.memory_bytes}"
