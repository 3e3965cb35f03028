"""What a round would say of one pair that somebody asks about. Pure.

The pair is decided on alone, by the same rules as all others: who else waits or runs decides who
gets the GPU, not whether the two could share it. Of a job that runs there also what the GPU is
worth to the plan and who is next best, which only the whole market can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

import msgspec

from console.figures import size
from console.scheduling.plan import Code, Kind, Rival, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts, Snapshot
from workers.matching import explain
from workers.matching.decide import decide, matched_as
from workers.matching.market import OutOfTime
from workers.matching.matched import Matched
from workers.matching.memory import Memory
from workers.matching.rivals import rivals
from workers.matching.weights import LEAST_THROUGHPUT
from workers.prediction.predictor import Predictor

NO_GPU: Final = "No round looks at that GPU: it does not share, not even in shadow mode."
NO_JOB: Final = "No round looks at that job now: it is held, is being measured, or has ended."


def why(
    snapshot: Snapshot,
    predictor: Predictor,
    job_id: UUID,
    gpu_id: int,
    prices: Mapping[str, int] | None = None,
) -> Verdict:
    """PLACE with what is predicted of the pair, else WAIT with what keeps the job off the GPU.

    `prices`, those of the last round, make the market quick to solve.
    """
    gpu = next((one for one in snapshot.gpus if one.id == gpu_id), None)
    if gpu is None:
        return Verdict(Kind.WAIT, Code.MODE, NO_GPU, job_id=job_id, gpu_id=gpu_id)
    job = _job(snapshot, job_id)
    if job is None:
        return Verdict(Kind.WAIT, Code.NO_JOBS, NO_JOB, job_id=job_id, gpu_id=gpu_id)
    told = _alone(snapshot, predictor, job, gpu)
    told = msgspec.structs.replace(told, why=f"{told.why} {_guest(snapshot, job, gpu)}".strip())
    if any(one.job.id == job_id and one.gpu_id == gpu_id for one in snapshot.running):
        return _in_market(told, snapshot, predictor, Memory(prices))
    return told


def _in_market(told: Verdict, snapshot: Snapshot, predictor: Predictor, memory: Memory) -> Verdict:
    """With the price of the GPU and the runner-up, when the pair is part of the matching."""
    try:
        matched = matched_as(snapshot, predictor, memory)
    except OutOfTime:
        return told
    found = _rival(matched, told.job_id)
    if found is None:
        return told
    return msgspec.structs.replace(
        told,
        why=f"{told.why} {found.said}".strip(),
        runner_up=found.name,
        runner_up_loss=found.loss,
        gpu_price=found.price,
    )


def _rival(matched: Matched, job_id: UUID | None) -> Rival | None:
    """Of a running job on its GPU; None for one that would be moved now, or has no part in it."""
    guests = matched.problem.field.guests
    at = next((at for at, one in enumerate(guests) if one.running.job.id == job_id), None)
    if at is None or at in matched.deal.moved:
        return None
    return rivals(matched).get(guests[at].gpu.id)


def _job(snapshot: Snapshot, job_id: UUID) -> JobFacts | None:
    jobs = (*snapshot.jobs, *(one.job for one in snapshot.running))
    return next((job for job in jobs if job.id == job_id), None)


def _alone(snapshot: Snapshot, predictor: Predictor, job: JobFacts, gpu: GpuFacts) -> Verdict:
    runs = job.id in {one.job.id for one in snapshot.running}
    # A job that runs has its place within its team already.
    room = {} if runs else snapshot.team_room
    pair = replace(snapshot, gpus=(gpu,), jobs=(job,), running=(), team_room=room)
    verdicts = decide(pair, predictor).verdicts
    of_job = next(one for one in verdicts if one.job_id == job.id)
    if of_job.kind is Kind.PLACE:
        said = of_job.why.removesuffix(explain.NO_OTHER).strip()
        said = said.replace("Runs at", "It would run at", 1)
        return msgspec.structs.replace(of_job, why=said, gpu_price=None)
    of_gpu = next((one for one in verdicts if one.gpu_id == gpu.id), of_job)
    nearer = of_gpu if of_job.code is Code.NO_GPUS else of_job
    said = _of_one(nearer, job, gpu)
    return msgspec.structs.replace(nearer, kind=Kind.WAIT, why=said, job_id=job.id, gpu_id=gpu.id)


def _of_one(told: Verdict, job: JobFacts, gpu: GpuFacts) -> str:
    """What is told of all GPUs, as it reads of this one; what would change it stays."""
    barriers = {
        Code.POOL: f"It may run in {', '.join(job.pools)}; this GPU is in pool {gpu.pool}.",
        Code.MODEL: f"It may run on {', '.join(job.gpu_models)}; this GPU is a {gpu.model}.",
        Code.LABELS: f"This GPU does not carry {', '.join(sorted(job.labels - gpu.labels))}.",
        Code.CONSERVATIVE: "This GPU serves tier 1, and the job has not been measured yet.",
        Code.UNPROVEN: f"Beside tier {gpu.tier} its policy takes only jobs that are proven.",
        Code.MEMORY: f"It needs {size(job.use.memory_bytes)} of GPU memory, more than this GPU has"
        " for offline work.",
        Code.HOST_CPU: "It needs more cores than its node has left for this GPU.",
        Code.HOST_MEMORY: "It needs more host memory than its node has left for this GPU.",
        Code.AVOID: "It was taken off this GPU not long ago.",
        Code.HELD: "This GPU is kept free for another job, which is moved here.",
        Code.SLOWDOWN: "It would slow online by more than the policy allows.",
        Code.WORTHLESS: f"It would run below {explain.percent(LEAST_THROUGHPUT)} of its speed"
        " alone, or harm online more than that is worth.",
    }
    if told.code not in barriers or told.job_id is None:
        return told.why
    of_all = explain.job_barrier(told.code, job, 1)
    return f"{barriers[told.code]} {told.why.removeprefix(of_all)}".strip()


def _guest(snapshot: Snapshot, job: JobFacts, gpu: GpuFacts) -> str:
    """Who holds the GPU now, as a sentence; empty: nobody."""
    guest = next((one.job for one in snapshot.running if one.gpu_id == gpu.id), None)
    if guest is None:
        return ""
    return "It runs there now." if guest.id == job.id else f"{guest.name} runs there now."
