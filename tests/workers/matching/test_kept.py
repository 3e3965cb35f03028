"""What a process remembers of earlier rounds makes the next one quick and changes none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.scheduling.plan import Kind
from tests.benchmarks.matching.cluster import Cluster
from tests.workers.cast import a_gpu, a_job
from workers.matching import kept_columns
from workers.matching.columns import places
from workers.matching.decide import decide
from workers.matching.gpu_columns import KIND, GpuColumns
from workers.matching.job_columns import JobColumns
from workers.matching.kept_worths import KeptWorths, Scored
from workers.matching.memory import Memory


@pytest.mark.parametrize("seed", range(3))
def test_a_warm_round_is_worth_what_a_cold_one_of_the_same_facts_is(seed):
    cluster, memory = Cluster(60, 80, 12, seed), Memory()
    plan = decide(cluster.snapshot(), last=memory)
    for _ in range(4):
        cluster.start(plan)
        cluster.change(0.2, 0.1)
        plan, cold = decide(cluster.snapshot(), last=memory), decide(cluster.snapshot())
        assert plan.objective == plan.upper_bound
        # In ties either may choose what steers a plan, and is no part of its worth.
        assert plan.objective == pytest.approx(cold.objective, abs=1e-3)


def test_what_is_said_again_of_jobs_that_stay_is_what_a_first_round_would_say():
    cluster, memory = Cluster(60, 60, 8, 5), Memory()
    plan = decide(cluster.snapshot(), last=memory)
    for _ in range(4):
        cluster.start(plan)
        cluster.change(0.2, 0.1)
        plan, cold = decide(cluster.snapshot(), last=memory), decide(cluster.snapshot())
        first = {(one.job_id, one.gpu_id): one for one in cold.of(Kind.KEEP)}
        again = [one for one in plan.of(Kind.KEEP) if (one.job_id, one.gpu_id) in first]
        assert len(again) > 20
        assert again == [first[one.job_id, one.gpu_id] for one in again]


def test_columns_that_were_read_before_are_those_of_a_first_reading():
    kept, rng = JobColumns(), np.random.default_rng(1)
    jobs = [a_job(number, labels=frozenset({f"rack={number % 3}"})) for number in range(20)]
    for _ in range(10):
        some = [jobs[at] for at in rng.permutation(20)[: rng.integers(0, 20)]]
        jobs[int(rng.integers(20))] = replace(a_job(int(rng.integers(20))), weight=rng.random())
        assert np.array_equal(kept.of(some), kept._read(some), equal_nan=True)


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 30)))
def test_what_is_looked_for_among_numbers_is_where_it_is_or_nowhere(among, wanted):
    numbers, some = np.array(among, np.int64), np.array(wanted, np.int64)
    found = places(numbers, some, np.argsort(numbers))
    assert found.tolist() == [among.index(one) if one in among else -1 for one in wanted]
    rising = sorted(among)
    found = places(np.array(rising, np.int64), some)
    assert found.tolist() == [rising.index(one) if one in rising else -1 for one in wanted]


def test_worths_that_were_worked_out_before_are_those_that_are_worked_out_anew():
    kept, rng = KeptWorths(), np.random.default_rng(1)
    score, slow = rng.random((30, 12), np.float32), 1 + rng.random((30, 12), np.float32)
    names, weight = [f"class-{number}" for number in range(12)], rng.random(12).astype(np.float32)
    for _ in range(10):
        load = np.flatnonzero(rng.random(30) < 0.7)
        job_class = rng.permutation(12)[: rng.integers(0, 12)]
        scored = Scored(score, slow, load, job_class)
        asked = load, [names[at] for at in job_class], weight[job_class], scored
        again, anew = kept.of((1.3, 1.6), *asked), KeptWorths().of((1.3, 1.6), *asked)
        assert len(again) == len(anew) == 2
        assert all(map(np.array_equal, again, anew))


def test_of_a_bound_that_no_policy_has_any_more_nothing_is_kept():
    kept, one = KeptWorths(), np.ones((1, 1), np.float32)
    first = np.zeros(1, np.int64)
    for hundredths in range(110, 160):
        kept.of((hundredths / 100,), first, ["class"], one[0], Scored(one, one, first, first))
    assert list(kept._tables) == [1.59]


def test_labels_that_change_all_the_time_leave_no_more_numbers_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(kept_columns, "MOST_KINDS", 50)
    kept = GpuColumns()
    for number in range(200):
        gpus = [a_gpu(at, labels=frozenset({f"seen={number}-{at}"})) for at in range(5)]
        told = kept.of(gpus)
        assert len(set(told[:, KIND])) == 5
        assert told[:, KIND].max() < kept.kinds <= 55
