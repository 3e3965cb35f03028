"""The matching of single GPUs and jobs, spelt out pair by pair: what `decide` is held against.

No rows, no classes, no prices: rules in plain words, and scipy's dense method.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from workers.matching import weights
from workers.matching.admission import admit
from workers.matching.memory import Memory
from workers.matching.problem import problem_of
from workers.prediction.analytic import Analytic
from workers.prediction.profiles import Profiles

# Makes sure of running jobs before anything else counts.
FORCED = 1 << 40


def table(snapshot, field):
    """[GPUs, jobs] what each pair is worth with all that steers it; 0: never. Free GPUs and those
    of jobs that may move; jobs that wait and those."""
    gpus = [*field.free, *(guest.gpu for guest in field.guests[: field.moving])]
    jobs = [*field.waiting, *(guest.running.job for guest in field.guests[: field.moving])]
    worth = np.zeros((len(gpus), len(jobs)), np.int64)
    for row, gpu in enumerate(gpus):
        for column, job in enumerate(jobs):
            guest = row - len(field.free)
            at_home = guest >= 0 and column == len(field.waiting) + guest
            open_ = guest < 0 or field.guests[guest].open
            if open_ and _allowed(snapshot, gpu, job):
                worth[row, column] = _worth(gpu, job, snapshot.gpus)
            if at_home:
                staying = _staying(snapshot, field.guests[guest])
                worth[row, column] = max(worth[row, column], staying, 1)
            if worth[row, column] and column >= len(field.waiting):
                worth[row, column] += FORCED
            elif worth[row, column]:
                waited = (snapshot.at - job.submitted_at).total_seconds() / 3_600
                aging = min(weights.AGING_MOST, max(0.0, waited * snapshot.aging_per_hour))
                worth[row, column] += round(aging * weights.SCALE)
    return gpus, jobs, worth


def optimum(worth):
    rows, columns = linear_sum_assignment(worth, maximize=True)
    return int(worth[rows, columns].sum())


def _allowed(snapshot, gpu, job):
    tier = 99 if gpu.tier is None else gpu.tier
    free = (1 - gpu.rules.memory_reserve_percent / 100) * gpu.memory_bytes - gpu.online.memory_bytes
    return (
        (not job.pools or gpu.pool in job.pools)
        and (not job.gpu_models or gpu.model in job.gpu_models)
        and job.labels <= gpu.labels
        and not (job.profile_source == "conservative" and tier == 1)
        and (job.proven or tier > gpu.rules.proven_for_tier)
        and job.use.memory_bytes <= free // (64 << 20) * (64 << 20)
        and (job.cpu_cores or 0) <= (float("inf") if gpu.cpu_free is None else gpu.cpu_free)
        and (gpu.held_for is None or gpu.held_for == job.id)
        and (job.id, gpu.id) not in snapshot.avoid
    )


def _worth(gpu, job, gpus):
    throughput, slowdown = _predicted(gpu, job)
    value = weights.worth(throughput, slowdown, np.float32(job.weight))
    forbidden = slowdown > np.float32(gpu.rules.most_slowdown)
    if forbidden or throughput < weights.LEAST_THROUGHPUT or value <= 0:
        return 0
    return int(np.rint(weights.SCALE * value))


def _predicted(gpu, job):
    share = _share(gpu)
    if share == 0:
        return np.float32(0), np.float32(1)
    made = Analytic().scores(_profile(gpu.online, up=True), _profile(job.use), share, (gpu.model,))
    return made.throughput[0, 0], made.slowdown[0, 0]


def _share(gpu):
    peak = np.ceil(gpu.online_peak_percent / 5) * 5
    left = np.floor((100 - peak - gpu.rules.sm_reserve_percent) / 5) * 5
    return np.array([0.0 if left < 10 else min(left, 90) / 100])


def _profile(use, up=False):
    def part(percent):
        return np.array([np.ceil(percent / 5) * 5 / 100 if up else percent / 100])

    none = np.array([np.nan])
    loads = part(use.sm_percent), part(use.util_percent), none, part(use.bandwidth_percent)
    return Profiles(*loads, np.array([0.1]), none, ("",))


def _staying(snapshot, guest):
    """By the problem of this one job and GPU alone: there is nothing to group."""
    alone = type(snapshot)(
        at=snapshot.at,
        mode=snapshot.mode,
        gpus=(guest.gpu,),
        jobs=(),
        running=(guest.running,),
        restarts_left={guest.gpu.pool: 1},
    )
    problem = problem_of(admit(alone), alone, Analytic(), Memory())
    return int(problem.guests.worth[0] + problem.guests.staying[0])
