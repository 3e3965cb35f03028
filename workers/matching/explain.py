"""The sentences of a round: each stands by itself, on the page of a job, a GPU or a round. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from console.figures import NBSP, quantity, size, span
from console.scheduling.plan import Code
from console.scheduling.snapshot import GpuFacts, JobFacts
from workers.matching.columns import Bools, Floats, Ints
from workers.matching.weights import LEAST_THROUGHPUT, AnyFloats
from workers.prediction.predictor import Judgement

NO_JOBS: Final = "No job waits that it could take."
NO_GPUS: Final = "No GPU is open for offline work now."
NO_OTHER: Final = "No other job could run there."
TOO_MANY: Final = "Too many kinds of jobs take part to say who would be next best there."
# Of a GPU whose job may not be moved now.
TAKEN: Final = "taken by a running job"
# A job that is nearly done is weighed as if its restart were never paid back: no figure for people.
_FAR_GPUS: Final = 5.0
NOT_NEEDED: Final = "Every job that it could take runs elsewhere for as much or more."

_PERCENT: Final = [f"{part}{NBSP}%" for part in range(1_001)]


def percent(part: float) -> str:
    """Of a whole; tens of thousands of them are told in a round."""
    return _PERCENT[min(1_000, max(0, round(part * 100)))]


def percents(parts: AnyFloats) -> list[str]:
    """A column of them."""
    return [_PERCENT[one] for one in _whole(parts).tolist()]


def _whole(parts: AnyFloats) -> Ints:
    """In percent."""
    whole: Ints = np.rint(np.clip(np.nan_to_num(parts), 0.0, 10.0) * 100.0).astype(np.int64)
    return whole


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


# --- a pair -------------------------------------------------------------------------------


def pairs(share_percent: Floats, judged: Judgement) -> list[str]:
    """What is predicted of each."""
    figures = (
        judged.throughput,
        judged.throughput_low,
        judged.throughput_high,
        share_percent / 100.0,
        judged.slowdown - 1.0,
        judged.slowdown_high - 1.0,
    )
    return [
        f"Runs at ≈ {speed} of its speed alone ({low} to {high}) on {share} of the SMs;"
        f" {_slower(slower, most)}."
        for speed, low, high, share, slower, most in zip(*map(percents, figures), strict=True)
    ]


def _slower(slower: str, most: str) -> str:
    if most == _PERCENT[0]:
        return "online is not slowed"
    return f"online slows by ≈ {slower} (at most {most})"


def runners_up(
    names: Sequence[str], other: Ints, throughput: AnyFloats, loss: Floats, unseats: Bools
) -> list[str]:
    """A column of them: `other` of the `names`, and its `loss` to the plan in GPUs. `unseats`: a
    running job would be left without a GPU, and only that is why `loss` may be below 0. Most are
    alike, so each sentence is made once."""
    speed, far = _whole(throughput), int(_FAR_GPUS * 100)
    lost = np.clip(np.rint(loss * 100.0), -far, far).astype(np.int64)
    parts = (other, speed, lost + far, unseats)
    key = np.ravel_multi_index(parts, (len(names), len(_PERCENT), 2 * far + 1, 2))
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    said = [
        _runner_up(names[who], _PERCENT[fast], less / 100.0, alone)
        for who, fast, less, alone in zip(
            *(column[first].tolist() for column in (other, speed, lost, unseats)), strict=True
        )
    ]
    return [said[one] for one in which.tolist()]


def _runner_up(name: str, throughput: str, loss: float, unseats: bool) -> str:
    if loss >= _FAR_GPUS:
        return f"Next best there: {name} (≈ {throughput}), worth far less in all."
    less = f"{abs(loss):.2f} {'less' if loss > 0.0 else 'more'}"
    worth = f"worth {less if loss else 'as much'}"
    but = ", but a running job would have to stop" if unseats else " in all"
    return f"Next best there: {name} (≈ {throughput}), {worth}{but}."


def fixed(why: str) -> str:
    return f"Not moved: {why}."


def trimmed(moves_open: bool) -> str:
    """Why a better place is not taken; `moves_open`: not for want of restarts in the hour."""
    if moves_open:
        return "a better place was found, but other moves come first, and only so many may be open"
    return "a better place was found, but no restart is left this hour"


def kept(least_gain: float) -> str:
    """`least_gain` of a move, in GPUs; above a whole one the job is nearly done."""
    if least_gain > 1.0:
        return "No restart would pay back in the time that it has left."
    return f"No move would gain ≈ {percent(least_gain)} and pay back its restart."


def moved(names: tuple[str, str], now: float, there: float, pays_back_s: float | None) -> str:
    """From and to; speeds as fractions of the speed alone."""
    gain = quantity(abs(there - now), "GPUs", 2)
    speeds = f"Runs at ≈ {percent(now)} on {names[0]} and would at ≈ {percent(there)} on {names[1]}"
    if there < now:
        return f"{speeds}: {gain} less, which makes room for a job that gains more."
    back = f", paid back in ≈ {span(pays_back_s)}" if pays_back_s is not None else ""
    return f"{speeds}: {gain} more{back}."


def chained(count: int) -> str:
    return f"One of {count} moves that only make sense together."


def makes_room(name: str) -> str:
    return f"Makes room for {name}, which waits."


def follows(gpu: str, mover: str) -> str:
    return f"Would have {gpu}, once {mover} has moved away from there."


# --- a GPU that stays free ----------------------------------------------------------------


def no_share(gpu: GpuFacts) -> str:
    peak = percent(gpu.online_peak_percent / 100)
    reserve = percent(gpu.rules.sm_reserve_percent / 100)
    return f"Online peaks at ≈ {peak} of the SMs; with {reserve} in reserve too little is left."


def gpu_barrier(code: Code, gpu: GpuFacts, jobs: int, free_bytes: float, slowdown: float) -> str:
    """Why none of `jobs` can run on a GPU that is open; `slowdown` is the least of any."""
    return {
        Code.POOL: f"None of the {jobs} jobs may run in pool {gpu.pool}.",
        Code.MODEL: f"None of the {jobs} jobs may run on a {gpu.model}.",
        Code.LABELS: f"All of the {jobs} jobs ask for labels that it does not carry.",
        Code.CONSERVATIVE: "It serves tier 1; the jobs that fit have not been measured yet.",
        Code.UNPROVEN: f"It serves tier {gpu.tier}; the jobs that fit have not been proven yet.",
        Code.MEMORY: f"It has {size(free_bytes)} for offline work; the jobs need more.",
        Code.HOST_CPU: "Its host has too few cores left for the jobs that fit.",
        Code.HOST_MEMORY: "Its host has too little memory left for the jobs that fit.",
        Code.NO_SHARE: no_share(gpu),
        Code.AVOID: "The jobs that fit were taken off this GPU not long ago.",
        Code.HELD: "Kept free for a job that is moved here.",
        Code.SLOWDOWN: "Any job would slow the online side by"
        f" ≈ {percent(slowdown - 1)} or more; its policy allows"
        f" {percent(gpu.rules.most_slowdown - 1)}.",
        Code.WORTHLESS: "Any job would run so slowly there, or harm online so much, that it is"
        " worth nothing.",
    }[code]


# --- a job that waits ---------------------------------------------------------------------


def job_barrier(code: Code, job: JobFacts, gpus: int) -> str:
    """Why a job can run on none of `gpus` that are open."""
    return {
        Code.POOL: f"None of the {gpus} open GPUs is in a pool it may use: {_few(job.pools)}.",
        Code.MODEL: f"None of the {gpus} open GPUs is a model it may use: {_few(job.gpu_models)}.",
        Code.LABELS: f"No open GPU that it may use carries {_few(sorted(job.labels))}.",
        Code.CONSERVATIVE: "The open GPUs that fit serve tier 1, and it has not been measured yet.",
        Code.UNPROVEN: "The open GPUs that fit take only jobs that are proven.",
        Code.MEMORY: f"It needs {size(job.use.memory_bytes)} of GPU memory; no open GPU has that.",
        Code.HOST_CPU: f"It needs {job.cpu_cores:g} cores; no host of a GPU that fits has them."
        if job.cpu_cores
        else "",
        Code.HOST_MEMORY: f"It needs {size(job.host_memory_bytes)} of host memory; no host of a GPU"
        " that fits has that.",
        Code.NO_SHARE: "Online leaves too little of the open GPUs that fit.",
        Code.AVOID: "The open GPUs that fit are those it was taken off not long ago.",
        Code.HELD: "The only open GPUs that fit are kept free for jobs that are moved.",
        Code.SLOWDOWN: "It would slow online by more than its policy allows on every open GPU.",
        Code.WORTHLESS: f"It would run below {percent(LEAST_THROUGHPUT)} of its speed alone, or"
        " harm online more than that is worth, on every open GPU.",
    }[code]


def less_memory(gpus: int, bytes_less: float) -> str:
    return f"{_would_fit(gpus)} with {size(bytes_less)} less."


def less_slowdown(slowdown: float, gpu: GpuFacts) -> str:
    allowed = percent(gpu.rules.most_slowdown - 1)
    return f"Least on {gpu.name}: ≈ {percent(slowdown - 1)}, allowed are {allowed}."


def once_measured(gpus: int) -> str:
    return f"{_would_fit(gpus)} once it is measured."


def once_proven(gpus: int) -> str:
    return f"{_would_fit(gpus)} once it has run on a free GPU without a fault."


def _would_fit(gpus: int) -> str:
    return f"{gpus} GPU would fit" if gpus == 1 else f"{gpus} GPUs would fit"


def none_open(pools: Sequence[str], gpus: int, reasons: Sequence[tuple[str, int]]) -> str:
    """`reasons`: why they are closed, and how many for each."""
    where = f"pool {_few(pools)}" if pools else "a GPU that it may use"
    why = ", ".join(f"{count} × {reason}" for reason, count in reasons[:3])
    return f"Waits for {where}: 0 of {gpus} GPUs open ({why})."


def outbid(fits: int) -> str:
    return f"{_fit(fits)}; all go to jobs worth as much or more."


def outbid_by(fits: int, gpu: str, job: str, own: float, theirs: float) -> str:
    best = f"Its best, {gpu} (≈ {percent(own)}), goes to {job} (≈ {percent(theirs)})."
    return f"{outbid(fits)} {best}"


def _fit(gpus: int) -> str:
    return f"{gpus} open GPU fits" if gpus == 1 else f"{gpus} open GPUs fit"


def higher_priority(priority: int) -> str:
    return f"Would be placed with priority {priority} or more."
