"""What a GPU is worth, and what the runner-up would cost, are exact: the reference forbids or makes
each pair in turn and matches all others anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from console.scheduling.plan import Kind
from tests.benchmarks.matching.cluster import Cluster
from tests.workers.cast import a_gpu, a_guest, a_job, a_snapshot, a_use
from tests.workers.matching.reference import markets, optimum
from workers.matching import certificate, rivals, solve
from workers.matching.chains import shortest
from workers.matching.decide import decide
from workers.matching.market import Market, Slots
from workers.matching.rivals import Pairs, runners_up


def forced(market: Market, row: int, job_class: int) -> int | None:
    """The most with a GPU of the row given to the class; None where that cannot be."""
    worth, slots = int(market.worth[row, job_class]), market.slots
    if worth <= 0 or not slots.capacity[job_class]:
        return None
    first = slots.offset[job_class]
    capacity = slots.capacity.copy()
    capacity[job_class] -= 1
    rest = Slots(capacity, np.delete(slots.extra, first))
    return worth + int(slots.extra[first]) + optimum(one_less(market, row, rest))


def one_less(market: Market, row: int, slots: Slots) -> Market:
    rows = market.rows.copy()
    rows[row] -= 1
    return Market(market.worth, rows, slots)


def pairs_of(market: Market, found) -> Pairs:
    worth = market.worth[found.row, found.job_class].astype(np.int64)
    return Pairs(found.row, found.row, found.job_class, found.job_class, worth)


@given(markets())
def test_the_runner_up_and_its_loss_are_those_of_the_reference(market):
    found, best = solve.assign(market), optimum(market)
    pairs = pairs_of(market, found)
    chain = shortest(certificate.prove(market, found).changes)
    other, loss = runners_up(market.worth, pairs, chain)
    for at, (row, own) in enumerate(zip(found.row, found.job_class, strict=True)):
        every = {
            job_class: best - most
            for job_class in range(len(market.slots.capacity))
            if job_class != own and (most := forced(market, row, job_class)) is not None
        }
        if not every:
            assert other[at] == -1
        else:
            assert loss[at] == every[other[at]] == min(every.values())


@given(markets())
def test_the_price_of_a_gpu_is_what_the_plan_would_lose_without_it(market):
    found = solve.assign(market)
    lowest = certificate.prove(market, found).lowest
    for row, own in zip(found.row.tolist(), found.job_class.tolist(), strict=True):
        price = int(market.worth[row, own]) - int(lowest[own])
        assert price == optimum(market) - optimum(one_less(market, row, market.slots))


@given(markets())
def test_who_would_have_the_gpu_of_a_job_that_may_not_move_costs_a_place_or_a_job(market):
    """A GPU more, of a kind there is, with a job that has no part in the market."""
    found, best = solve.assign(market), optimum(market)
    chain = shortest(certificate.prove(market, found).changes)
    none = len(market.slots.capacity)
    count = len(market.rows)
    every, last = np.arange(count), np.full(count, none)
    stays = Pairs(every, every, last, last, np.full(count, 7))
    other, loss = runners_up(market.worth, stays, chain)
    for row in range(count):
        more = Market(market.worth, market.rows + (every == row), market.slots)
        every_class = [
            best + 7 - most
            for job_class in range(none)
            if (most := forced(more, row, job_class)) is not None
        ]
        assert (other[row] < 0) == (not every_class)
        assert not every_class or loss[row] == min(every_class)


# --- of whole plans -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_of_every_pair_of_a_plan_the_gpu_is_worth_something_and_no_rival_gains(seed):
    cluster = Cluster(80, 100, 12, seed)
    cluster.start(decide(cluster.snapshot()))
    cluster.change(0.2, 0.1)
    plan = decide(cluster.snapshot())
    pairs = {one.gpu_id for one in plan.verdicts if one.kind in (Kind.PLACE, Kind.KEEP, Kind.MOVE)}
    found = plan.rivals()
    assert found.keys() == pairs
    assert all(one.price >= 0.0 for one in found.values())
    assert all(one.loss is None or one.loss >= 0.0 for one in found.values())
    assert any(one.loss is not None and one.loss > 0.1 for one in found.values())


def test_of_too_many_kinds_of_jobs_prices_alone_are_told(monkeypatch):
    cluster = Cluster(40, 60, 12, 1)
    plan = decide(cluster.snapshot())
    usual = plan.rivals()
    monkeypatch.setattr(rivals, "MOST_CLASSES", plan.inputs["job_classes"])
    assert plan.rivals() == usual
    monkeypatch.setattr(rivals, "MOST_CLASSES", plan.inputs["job_classes"] - 1)
    few = plan.rivals()
    assert {gpu: one.price for gpu, one in few.items()} == {
        gpu: one.price for gpu, one in usual.items()
    }
    assert {(one.name, one.loss) for one in few.values()} == {("", None)}
    assert all("Too many" in one.said for one in few.values())


def test_jobs_that_could_change_places_cost_nothing():
    """Two GPUs alike, two jobs: each would be as good on the other's."""
    plan = decide(a_snapshot([a_gpu(1), a_gpu(2)], [a_job(1), a_job(2, a_use(90, 90, 0))]))
    found = plan.rivals()
    assert {one.name for one in found.values()} == {"job-1", "job-2"}
    assert [one.loss for one in found.values()] == [0.0, 0.0]
    assert all("worth as much" in one.said for one in found.values())


def test_a_job_that_none_can_take_the_place_of_has_no_rival():
    plan = decide(a_snapshot([a_gpu()], [a_job(1)]))
    (only,) = plan.rivals().values()
    assert (only.name, only.loss, only.said) == ("", None, "No other job could run there.")
    assert only.price == pytest.approx(plan.objective, abs=1e-6)


@pytest.mark.parametrize("restarts", [0, 1], ids=["may not move", "may move"])
def test_a_job_that_would_do_better_does_not_leave_a_running_one_without_a_gpu(restarts):
    """It is said so, and the figure is what it would be worth without that."""
    runs = a_guest(a_job(1, a_use(100, 100, 0)), a_gpu())
    snapshot = a_snapshot([a_gpu()], [a_job(2)], running=(runs,))
    plan = decide(replace(snapshot, restarts_left={"web": restarts}))
    (kept,) = plan.rivals().values()
    assert kept.name == "job-2"
    assert "a running job would have to stop" in kept.said
    assert -1.0 < kept.loss < 1.0
    assert 0.0 < kept.price < 1.0
