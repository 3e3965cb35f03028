"""A plausible cluster of any size: pools, services with instances, and a queue of jobs."""

from __future__ import annotations

from agents.wire.cluster import Cluster


def build_cluster(nodes: int, gpus: int, seed: int) -> Cluster:
    """`nodes` × `gpus` GPUs in four pools; the same arguments give the same cluster."""
    raise NotImplementedError
