"""The limits of all that runs, from what online is expected to need. Pure.

Each job gets the share that a round would give it now on its own GPU (`shares.best`), with
hysteresis. A smaller one than it started with becomes a duty cap at once; a larger one waits for
the next start, and is a reason for a restart when that pays back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np

from console.scheduling.limits import Limits, Renewed
from console.scheduling.snapshot import GpuFacts, RunningFacts, Snapshot
from workers.matching.columns import Floats
from workers.matching.demand import demand_of
from workers.matching.judging import Judge
from workers.matching.memory import Memory
from workers.matching.seats import seats_of
from workers.prediction.predictor import Predictor
from workers.reallocation.restart import Restart
from workers.reallocation.shares import HYSTERESIS, LEAST, target


def renew(
    snapshot: Snapshot, limits: Mapping[UUID, Limits], predictor: Predictor
) -> dict[UUID, Renewed]:
    """By placement, of those that `limits` names and `snapshot` says to be running."""
    running = [one for one in snapshot.running if one.placement_id in limits]
    gpu_of = {gpu.id: gpu for gpu in snapshot.gpus}
    gpus = [gpu_of[one.gpu_id] for one in running]
    if not running:
        return {}
    memory = Memory()
    seats = seats_of(gpus, memory.gpus.of(gpus), memory.gpus)
    demand = demand_of((), (), [one.job for one in running], (), snapshot, memory)
    judge = Judge(predictor, memory, seats, demand)
    share = _share(judge)
    before = [limits[one.placement_id] for one in running]
    after = [target(old, new) for old, new in zip(before, share.tolist(), strict=True)]
    restarts = _restarts(judge, running, gpus, after)
    return {
        one.placement_id: _renewed(new, restarts.get(at))
        for at, (one, new) in enumerate(zip(running, after, strict=True))
    }


def _share(judge: Judge) -> Floats:
    """[n] percent: the best for each pair; the least where online leaves no share at all."""
    share = np.full(len(judge.seats.gpus), LEAST)
    some = np.flatnonzero(judge.seats.share_percent >= LEAST)
    share[some] = [one.share_percent for one in judge.best(some, some)]
    return share


def _restarts(
    judge: Judge,
    running: Sequence[RunningFacts],
    gpus: Sequence[GpuFacts],
    limits: Sequence[Limits],
) -> dict[int, Restart]:
    """By position, what a restart would do for those whose larger share waits for one."""
    some = np.array([at for at, one in enumerate(limits) if _waits_for_more(one)], np.int64)
    started = np.array([limits[at].started for at in some.tolist()], np.float64)
    desired = np.array([limits[at].desired for at in some.tolist()], np.float64)
    now, then = judge.at(some, some, started), judge.at(some, some, desired)
    return {
        at: Restart(running[at], gpus[at].rules, old.throughput, new.throughput)
        for at, old, new in zip(some.tolist(), now, then, strict=True)
    }


def _waits_for_more(limits: Limits) -> bool:
    return limits.started is not None and limits.desired - limits.started >= HYSTERESIS


def _renewed(limits: Limits, restart: Restart | None) -> Renewed:
    if restart is None:
        return Renewed(limits)
    allowed = restart.pays and not restart.running.fixed
    return Renewed(limits, restart.why, restart.evidence(limits) if allowed else None)
