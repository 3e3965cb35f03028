"""What a round would say of one pair that somebody asks about. Pure.

The pair is decided on alone, by the same rules as all others: who else waits or runs decides who
gets the GPU, not whether the two could share it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

import msgspec

from console.scheduling.plan import Code, Kind, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts, Snapshot
from workers.matching import explain
from workers.matching.decide import decide
from workers.prediction.predictor import Predictor

NO_GPU: Final = "No round looks at that GPU: it does not share, not even in shadow mode."
NO_JOB: Final = "No round looks at that job now: it is held, is being measured, or has ended."


def why(snapshot: Snapshot, predictor: Predictor, job_id: UUID, gpu_id: int) -> Verdict:
    """PLACE with what is predicted of the pair, else WAIT with what keeps the job off the GPU."""
    gpu = next((one for one in snapshot.gpus if one.id == gpu_id), None)
    if gpu is None:
        return Verdict(Kind.WAIT, Code.MODE, NO_GPU, job_id=job_id, gpu_id=gpu_id)
    job = _job(snapshot, job_id)
    if job is None:
        return Verdict(Kind.WAIT, Code.NO_JOBS, NO_JOB, job_id=job_id, gpu_id=gpu_id)
    told = _alone(snapshot, predictor, job, gpu)
    return msgspec.structs.replace(told, why=f"{told.why} {_guest(snapshot, job, gpu)}".strip())


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
        return msgspec.structs.replace(of_job, why=said, gpu_price=None)
    of_gpu = next((one for one in verdicts if one.gpu_id == gpu.id), of_job)
    nearer = of_gpu if of_job.code is Code.NO_GPUS else of_job
    return msgspec.structs.replace(nearer, kind=Kind.WAIT, job_id=job.id, gpu_id=gpu.id)


def _guest(snapshot: Snapshot, job: JobFacts, gpu: GpuFacts) -> str:
    """Who holds the GPU now, as a sentence; empty: nobody."""
    guest = next((one.job for one in snapshot.running if one.gpu_id == gpu.id), None)
    if guest is None:
        return ""
    return "It runs there now." if guest.id == job.id else f"{guest.name} runs there now."
