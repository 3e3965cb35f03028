"""One pair that somebody asks about."""

from __future__ import annotations

from uuid import UUID

import pytest

from agents.wire.names import GpuState
from console.scheduling.plan import Code, Kind
from tests.workers.cast import a_gpu, a_guest, a_job, a_snapshot, a_use
from workers.matching.ask import why
from workers.prediction.analytic import Analytic

JOB, GPU = a_job(1), a_gpu(1)


def asked(snapshot, job=JOB, gpu=GPU):
    return why(snapshot, Analytic(), job.id, gpu.id)


def test_a_pair_that_could_be_made_is_predicted():
    told = asked(a_snapshot([GPU, a_gpu(2)], [JOB, a_job(2)]))
    assert (told.kind, told.job_id, told.gpu_id) == (Kind.PLACE, JOB.id, GPU.id)
    assert told.throughput_low <= told.throughput <= told.throughput_high
    assert told.why.startswith("It would run at")
    assert "No other job" not in told.why


@pytest.mark.parametrize(
    ("gpu", "job", "code"),
    [
        (GPU, a_job(1, a_use(gib=99)), Code.MEMORY),
        (GPU, a_job(1, pools=("batch",)), Code.POOL),
        (GPU, a_job(1, labels=frozenset({"rack=7"})), Code.LABELS),
        (a_gpu(1, state=GpuState.GUARDED), JOB, Code.STATE),
        (a_gpu(1, holdback=True), JOB, Code.HOLDBACK),
        (a_gpu(1, a_use(99, 99, 20, 10)), JOB, Code.NO_SHARE),
        (a_gpu(1, held_for=UUID(int=9)), JOB, Code.HELD),
        (GPU, a_job(1, gpus=4), Code.GANG),
    ],
)
def test_what_keeps_a_job_off_a_gpu_is_named(gpu, job, code):
    told = asked(a_snapshot([gpu], [job]), job, gpu)
    assert (told.kind, told.code) == (Kind.WAIT, code)
    assert told.why
    assert "open GPUs" not in told.why, "it is asked of one"


def test_a_gpu_that_it_was_taken_off_is_avoided():
    told = asked(a_snapshot([GPU, a_gpu(2)], [JOB], avoid=frozenset({(JOB.id, GPU.id)})))
    assert told.code is Code.AVOID


def test_who_holds_the_gpu_is_told_beside_the_answer():
    other = a_job(2)
    told = asked(a_snapshot([GPU], [JOB], running=(a_guest(other, GPU),)))
    assert told.kind is Kind.PLACE
    assert told.why.endswith(f"{other.name} runs there now.")


def test_of_a_job_that_runs_there_the_whole_market_says_who_is_next_best():
    """One of two jobs has the only GPU, and keeps it: the other is what that costs."""
    rival = a_job(2, a_use(100, 100, 0))
    snapshot = a_snapshot([GPU], [rival], running=(a_guest(JOB, GPU),), restarts_left={"web": 1})
    told = asked(snapshot)
    assert told.kind is Kind.PLACE
    assert told.runner_up == rival.name
    assert told.runner_up_loss > 0.0
    assert told.gpu_price > 0.0
    assert "It runs there now. Next best there: job-2" in told.why
    assert asked(snapshot, rival).runner_up == "", "of a pair that is not made nothing is known"


def test_a_job_that_runs_elsewhere_may_be_asked_about_though_its_team_is_full():
    guest = a_guest(JOB, a_gpu(2))
    snapshot = a_snapshot([GPU, a_gpu(2)], running=(guest,), team_room={JOB.team: 0})
    assert asked(snapshot).kind is Kind.PLACE


def test_what_no_round_looks_at_is_said():
    assert asked(a_snapshot([], [JOB])).code is Code.MODE
    assert asked(a_snapshot([GPU])).code is Code.NO_JOBS
