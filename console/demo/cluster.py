"""The demo's cluster: the simulated one with a few short jobs, and node 17 with real processes."""

from __future__ import annotations

import sys

import msgspec

from agents.wire.cluster import Cluster, ClusterGpu, ClusterJob, ClusterNode
from agents.wire.names import RuntimeKind

REAL_NODE = "node-17"
REAL_POOL = "lab"
GIB = 1 << 30
WORLD_MINUTE_S, WORLD_HOUR_S = 60.0, 3_600.0
# Above every other job of the queue; trials as many as there are cards without an online service.
TRIALS, TRIAL_PRIORITY = 18, 10
CAMPAIGNS, CAMPAIGN_PRIORITY = 8, 8


def staged(cluster: Cluster) -> Cluster:
    """Such that a move that pays soon waits for a person.

    Trials take whole cards first and are done within the first minute; campaigns, for which there
    was none left, run beside online services for long and would gain from the cards set free.
    """
    trials = (
        _hungry(f"trial-{number + 1:02d}", (18 + number) * WORLD_MINUTE_S, TRIAL_PRIORITY)
        for number in range(TRIALS)
    )
    campaigns = (
        _hungry(f"campaign-{number + 1:02d}", (6 + number / 2) * WORLD_HOUR_S, CAMPAIGN_PRIORITY)
        for number in range(CAMPAIGNS)
    )
    return msgspec.structs.replace(
        cluster,
        nodes=(*cluster.nodes, _node()),
        jobs=(*cluster.jobs, *trials, *campaigns, *real_jobs(first=1)),
    )


def _hungry(name: str, work_s: float, priority: int) -> ClusterJob:
    """A job for which a card of its own makes all the difference."""
    return ClusterJob(
        name=name,
        team="research",
        work_s=work_s,
        sm_percent=56,
        gpu_util_percent=90,
        memory_bytes=14 * GIB,
        memory_bandwidth_percent=54,
        priority=priority,
        checkpoint_period_s=600,
    )


def _node() -> ClusterNode:
    gpus = tuple(
        ClusterGpu(f"GPU-17000000-0000-4000-8000-00000000000{index}", "A10 24 GB", 24 * GIB)
        for index in range(2)
    )
    return ClusterNode(REAL_NODE, REAL_POOL, gpus, {"rack": "lab"}, RuntimeKind.PROCESS)


def real_jobs(first: int, count: int = 6) -> tuple[ClusterJob, ...]:
    """Jobs that run the small training program as a real process, a few real minutes each."""
    return tuple(_job(f"process-trainer-{number:02d}") for number in range(first, first + count))


def _job(name: str) -> ClusterJob:
    return ClusterJob(
        name=name,
        team="research",
        work_s=3 * WORLD_HOUR_S,
        sm_percent=50,
        gpu_util_percent=80,
        memory_bytes=6 * GIB,
        memory_bandwidth_percent=30,
        checkpoint_period_s=600,
        pools=(REAL_POOL,),
        command=(sys.executable, "-m", "agents.stub.trainer"),
    )
