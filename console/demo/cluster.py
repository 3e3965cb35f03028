"""The demo's cluster: the simulated one with a few short jobs, and node 17 with real processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from agents.wire.cluster import (
    Cluster,
    ClusterGpu,
    ClusterInstance,
    ClusterJob,
    ClusterNode,
    ClusterService,
)
from agents.wire.names import Checkpoint, RuntimeKind

REAL_NODE = "node-17"
REAL_POOL = "lab"
# One GPU each: a job is steered to a GPU by the model that it may use.
REAL_MODELS: Final = ("Stand-in GPU A", "Stand-in GPU B")
REAL_SERVICES: Final = ("lab-chat", "lab-search")
PROCESS_FAMILY, CAREFUL_FAMILY, CARELESS_FAMILY = "process-trainer", "gpu-trainer", "bare-trainer"
DROPS_PRELOAD: Final = (
    *("env", "-u", "LD_PRELOAD"),
    *("-u", "MUXFLOW_XCUDA_DIR", "-u", "MUXFLOW_XCUDA_REQUIRED"),
)
GIB = 1 << 30
REAL_GPU_BYTES: Final = 24 * GIB
WORLD_MINUTE_S, WORLD_HOUR_S = 60.0, 3_600.0
# Above every other job of the queue; trials as many as there are cards without an online service,
# but for those on which the novel jobs are measured.
TRIALS, TRIAL_PRIORITY = 15, 10
# Jobs that came without a profile: name, image and command. The last two are one program.
NOVEL: Final = (
    ("whisper-901", "speech/whisper:3", "python finetune.py --language fi"),
    ("vit-902", "vision/vit:12", "python pretrain.py --patch 14"),
    ("t5-903", "research/t5:7", "python train.py --tasks all"),
    ("t5-904", "research/t5:7", "python train.py --tasks all"),
)
NOVEL_HOURS: Final = 9
CAMPAIGNS, CAMPAIGN_PRIORITY = 8, 8
# Node 17 is theirs first.
REAL_PRIORITY: Final = 12


def staged(cluster: Cluster, gpu_uuids: Sequence[str] = ()) -> Cluster:
    """Such that a move that pays soon waits for a person.

    Trials take whole cards first and are done within the first minute; campaigns, for which there
    was none left, run beside online services for long and would gain from the cards set free.
    `gpu_uuids`: of node 17's stand-in GPUs, empty where the machine has none.
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
        nodes=(*cluster.nodes, real_node(gpu_uuids)),
        services=(*cluster.services, *(real_services() if gpu_uuids else ())),
        jobs=(*cluster.jobs, *trials, *campaigns, *real_jobs(under_mps=bool(gpu_uuids))),
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


# --- node 17 ------------------------------------------------------------------------------


def real_node(gpu_uuids: Sequence[str]) -> ClusterNode:
    """Without stand-in GPUs its GPU values are simulated, its processes real all the same."""
    if gpu_uuids:
        gpus = tuple(
            ClusterGpu(uuid, model, REAL_GPU_BYTES)
            for uuid, model in zip(gpu_uuids, REAL_MODELS, strict=True)
        )
    else:
        gpus = tuple(
            ClusterGpu(f"GPU-17000000-0000-4000-8000-00000000000{index}", "A10 24 GB", 24 * GIB)
            for index in range(2)
        )
    return ClusterNode(REAL_NODE, REAL_POOL, gpus, {"rack": "lab"}, RuntimeKind.PROCESS)


def real_services() -> tuple[ClusterService, ...]:
    """One instance on each GPU: `agents/stub/online_service.py`."""
    return tuple(
        ClusterService(
            name=name,
            team="research",
            pool=REAL_POOL,
            tier=3,
            slo_p99_ms=400.0,
            peak_qps=10.0,
            base_p99_ms=15.0,
            sm_percent=8,
            gpu_util_percent=12,
            memory_bytes=8 * GIB,
            memory_bandwidth_percent=4,
            instances=(ClusterInstance(REAL_NODE, index),),
        )
        for index, name in enumerate(REAL_SERVICES)
    )


def real_jobs(*, under_mps: bool, each: int = 4) -> tuple[ClusterJob, ...]:
    """Jobs that run a small training program as a real process, a few real minutes each.

    On stand-in GPUs there are two kinds, each for one of the two: the same program, but that of
    the careless kind drops the preload, as a user's own command may.
    """
    if not under_mps:
        plain = _job(PROCESS_FAMILY, (sys.executable, "-m", "agents.stub.trainer"))
        return _numbered(plain, 6)
    training = (sys.executable, "-m", "agents.stub.gpu_trainer")
    kinds = ((CAREFUL_FAMILY, training), (CARELESS_FAMILY, (*DROPS_PRELOAD, *training)))
    jobs = [
        # It does nothing at SIGTERM, so there is nothing to wait for.
        msgspec.structs.replace(
            _job(family, command), gpu_models=(model,), checkpoint=Checkpoint.NONE
        )
        for (family, command), model in zip(kinds, REAL_MODELS, strict=True)
    ]
    return tuple(job for like in jobs for job in _numbered(like, each))


def _numbered(like: ClusterJob, count: int) -> tuple[ClusterJob, ...]:
    return tuple(
        msgspec.structs.replace(like, name=f"{like.name}-{number:02d}")
        for number in range(1, count + 1)
    )


def _job(name: str, command: tuple[str, ...]) -> ClusterJob:
    return ClusterJob(
        name=name,
        team="research",
        work_s=3 * WORLD_HOUR_S,
        sm_percent=45,
        gpu_util_percent=80,
        memory_bytes=7 * GIB,
        memory_bandwidth_percent=30,
        priority=REAL_PRIORITY,
        checkpoint_period_s=600,
        pools=(REAL_POOL,),
        command=command,
    )
