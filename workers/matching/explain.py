"""The sentences of a round: each stands by itself, on the page of a job, a GPU or a round. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console.figures import quantity, size, span
from console.scheduling.plan import Code, Kind, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts
from workers.matching.moves import Found, Guest
from workers.matching.problem import LEAST_THROUGHPUT, MOST_SLOWDOWN, Problem

NO_JOBS: Final = "No job waits that it could take."
NO_GPUS: Final = "No GPU is open for offline work now."
NO_OTHER: Final = "No other job that waits could run there."
NOT_NEEDED: Final = "Every job that it could take runs elsewhere for as much or more."


# --- a pair -------------------------------------------------------------------------------


def pair(throughput: float, share_percent: float, slowdown: float) -> str:
    return (
        f"Runs at ≈ {percent(throughput)} of its speed alone on {percent(share_percent / 100)} of"
        f" the SMs; online slows by ≈ {percent(slowdown - 1)}."
    )


def runner_up(name: str, throughput: float, loss: float) -> str:
    cost = f"{loss:.2f} GPUs less in all" if loss >= 0.005 else "worth as much in all"
    return f"Next best there: {name} (≈ {percent(throughput)}), {cost}."


def kept(guest: Guest) -> Verdict:
    """A running job that stays."""
    fixed = guest.running.fixed
    no_move = f"No move would gain ≈ {percent(guest.least_gain)} and pay back its restart"
    why = f"Not moved: {fixed}" if fixed else no_move
    return Verdict(
        Kind.KEEP,
        Code.FIXED if fixed else Code.KEPT,
        f"Runs at ≈ {percent(guest.speed)} of its speed alone here. {why}.",
        job_id=guest.running.job.id,
        gpu_id=guest.gpu.id,
        weight=guest.speed * guest.running.job.weight,
        throughput=guest.speed,
        share_percent=guest.running.share_percent,
    )


def moved(move: Found) -> Verdict:
    """A running job that stays until somebody agrees to its move."""
    guest = move.guest
    return Verdict(
        Kind.MOVE,
        Code.MOVE,
        why_moved(move),
        job_id=guest.running.job.id,
        gpu_id=move.to.id,
        from_gpu_id=guest.gpu.id,
        weight=guest.speed * guest.running.job.weight,
        throughput=move.speed,
    )


def why_moved(move: Found) -> str:
    here, there = percent(move.guest.speed), percent(move.speed)
    return (
        f"Runs at ≈ {here} on {move.guest.gpu.name} and would at ≈ {there} on {move.to.name}:"
        f" {move.gain:+.2f} GPUs, paid back in ≈ {span(move.pays_back_s)}."
    )


# --- a GPU that stays free ----------------------------------------------------------------


def no_share(gpu: GpuFacts) -> str:
    peak = percent(gpu.online_peak_percent / 100)
    reserve = percent(gpu.rules.sm_reserve_percent / 100)
    return f"Online peaks at ≈ {peak} of the SMs; with {reserve} in reserve too little is left."


def gpu_barrier(code: Code, gpu: GpuFacts, row: int, problem: Problem) -> str:
    """Why nothing that waits can run on a GPU that is open."""
    jobs = int(problem.classes.count.sum())
    free, need = problem.rows.quota_bytes[row], min(problem.classes.memory_bytes)
    slowdown = percent(problem.slowdown[row].min() - 1)
    return {
        Code.POOL: f"None of the {jobs} jobs that wait may run in pool {gpu.pool}.",
        Code.MODEL: f"None of the {jobs} jobs that wait may run on a {gpu.model}.",
        Code.MEMORY: f"It has {size(free)} for offline work; no job that waits needs less than"
        f" {size(need)}.",
        Code.AVOID: "The jobs that fit were taken off this GPU not long ago.",
        Code.HELD: "Kept free for a job that is moved here.",
        Code.SLOWDOWN: f"Any job would slow the online side by ≈ {slowdown} or more.",
        Code.WORTHLESS: f"Any job would run below {percent(LEAST_THROUGHPUT)} of its speed alone.",
    }[code]


# --- a job that waits ---------------------------------------------------------------------


def job_barrier(code: Code, job: JobFacts, gpus: int, problem: Problem) -> str:
    """Why a job can run on no GPU that is open."""
    need, most = job.use.memory_bytes, max(problem.rows.quota_bytes)
    return {
        Code.POOL: f"None of the {gpus} open GPUs is in a pool it may use: {_few(job.pools)}.",
        Code.MODEL: f"None of the {gpus} open GPUs is a model it may use: {_few(job.gpu_models)}.",
        Code.MEMORY: f"It needs {size(need)}; no open GPU has more than {size(most)} for it.",
        Code.AVOID: "The open GPUs that fit are those it was taken off not long ago.",
        Code.HELD: "The only open GPU that fits is kept free for a job that is moved.",
        Code.SLOWDOWN: f"It would slow online by over {percent(MOST_SLOWDOWN - 1)} on every"
        " open GPU.",
        Code.WORTHLESS: f"It would run below {percent(LEAST_THROUGHPUT)} of its speed alone on"
        " every open GPU.",
    }[code]


def outbid(fits: int) -> str:
    return f"{fits} open GPUs fit; all go to jobs worth as much or more."


def outbid_by(fits: int, gpu_and_job: tuple[str, str], own: float, theirs: float) -> str:
    gpu, job = gpu_and_job
    best = f"Its best, {gpu} (≈ {percent(own)}), goes to {job} (≈ {percent(theirs)})."
    return f"{outbid(fits)} {best}"


def percent(part: float) -> str:
    return quantity(part * 100, "%")


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
