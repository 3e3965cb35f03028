"""What the clock does to the rows."""

from __future__ import annotations

import pytest

from agents.wire.names import Origin
from console.audit.models import Entry
from console.evictions import queries, services, words
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.inventory.models import Gpu, Node
from console.scheduling.models import Placement
from tests.console.evictions.cast import (
    NOW,
    a_dispatched,
    a_gpu_in_use,
    a_job,
    a_phase,
    a_placement,
    a_proposal,
    a_start,
    after,
    an_approver,
    fresh,
)
from tests.console.inventory.cast import a_gpu, a_node
from tests.console.scheduling.cast import a_sharing_pool

pytestmark = pytest.mark.django_db


def test_dispatching_tells_the_node_in_the_same_step():
    eviction = a_proposal()
    services.approve(eviction.pk, an_approver(), "", NOW)
    before = Node.objects.get().generation
    services.tick(after(9))
    assert Node.objects.get().generation == before
    services.tick(after(10))
    assert Node.objects.get().generation == before + 1
    assert fresh(eviction).state == State.DISPATCHED


def test_at_its_deadline_an_slo_eviction_runs_by_itself():
    eviction = a_proposal(origin=Origin.SLO)
    services.tick(after(240))
    row = fresh(eviction)
    assert (row.state, row.decided_by) == (State.DISPATCHED, None)


def test_at_its_deadline_a_move_is_dropped():
    eviction = a_proposal(origin=Origin.MOVE)
    services.tick(after(1_799))
    assert fresh(eviction).state == State.PROPOSED
    services.tick(after(1_800))
    row = fresh(eviction)
    assert (row.state, row.ended_at) == (State.EXPIRED, after(1_800))


def an_open_gpu() -> Gpu:
    node = a_node("node-02", a_sharing_pool("batch"), state="CONNECTED")
    return a_gpu(node, sharing_mode="enforce")


def a_move(target: Gpu) -> Eviction:
    placement = a_placement(a_gpu_in_use())
    move = services.propose(placement, Origin.MOVE, "pays", {"gain": 0.4}, NOW, to_gpu=target)
    assert move is not None
    return move


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        ({"disabled": True, "disabled_reason": "fan"}, "it was disabled: fan"),
        ({"sharing_mode": "observe"}, "its sharing mode is observe"),
        ({"unshareable_fact": "MIG is on"}, "MIG is on"),
        ({"conflict": True}, "another node claims its UUID"),
        ({"state": "DISABLED"}, "its hardware is suspect"),
    ],
)
def test_a_move_whose_target_closes_is_withdrawn_with_the_reason(closed, why):
    target = an_open_gpu()
    move = a_move(target)
    services.tick(after(1))
    assert fresh(move).state == State.PROPOSED
    Gpu.objects.filter(pk=target.pk).update(**closed)
    services.tick(after(2))
    row = fresh(move)
    assert (row.state, row.ended_at) == (State.SUPERSEDED, after(2))
    assert words.outcome(row) == f"Withdrawn: {target} takes it no more: {why}"
    assert row.evidence["gain"] == 0.4
    assert why in Entry.objects.get(action="eviction.supersede").reason


def test_an_approved_move_to_a_cordoned_node_does_not_go_out():
    target = an_open_gpu()
    move = a_move(target)
    services.approve(move.pk, an_approver(), "", NOW)
    Node.objects.filter(pk=target.node_id).update(cordoned=True)
    services.tick(after(60))
    assert fresh(move).state == State.SUPERSEDED
    assert not Entry.objects.filter(action="eviction.dispatch").exists()


def test_a_busy_moment_of_its_target_does_not_withdraw_a_move():
    target = an_open_gpu()
    move = a_move(target)
    Gpu.objects.filter(pk=target.pk).update(state="UNHEALTHY")
    services.tick(after(1))
    assert fresh(move).state == State.PROPOSED


def test_beyond_the_budget_nothing_more_runs_by_itself(monkeypatch):
    eviction = a_proposal(origin=Origin.SLO)
    monkeypatch.setattr(queries, "gone_by_themselves", lambda *_: 8)
    services.tick(after(240))
    assert fresh(eviction).state == State.EXPIRED


def test_only_what_went_without_a_person_counts_against_the_budget():
    eviction = a_dispatched()
    pool = eviction.gpu.node.pool
    assert queries.gone_by_themselves(pool, Origin.SLO, after(20)) == 0
    services.placement_ended(eviction.placement, None, after(20))
    Placement.objects.update(state="ENDED")
    second = a_proposal(a_placement(eviction.gpu, a_job("gpt2-ft-12")))
    services.tick(after(240))
    assert fresh(second).state == State.DISPATCHED
    assert queries.gone_by_themselves(pool, Origin.SLO, after(241)) == 1
    assert queries.gone_by_themselves(pool, Origin.SLO, after(240 + 3_601)) == 0


def test_a_stop_that_does_not_end_is_stuck_then_failed_and_its_gpu_is_disabled():
    eviction = a_dispatched()
    services.agent_phase(eviction.gpu.node, a_phase(eviction, "ACCEPTED", 11), after(11))
    services.tick(after(200))
    assert fresh(eviction).state == State.STUCK
    services.tick(after(321))
    assert fresh(eviction).state == State.FAILED
    gpu = Gpu.objects.get()
    assert gpu.disabled
    assert "resnet-31" in gpu.disabled_reason


def test_a_gpu_that_is_disabled_already_does_not_stop_the_failure():
    eviction = a_dispatched()
    services.agent_phase(eviction.gpu.node, a_phase(eviction, "ACCEPTED", 11), after(11))
    Gpu.objects.update(disabled=True)
    services.tick(after(200))
    services.tick(after(321))
    assert fresh(eviction).state == State.FAILED


def test_while_the_node_is_silent_a_stop_waits():
    eviction = a_dispatched()
    services.agent_phase(eviction.gpu.node, a_phase(eviction, "ACCEPTED", 11), after(11))
    Node.objects.update(state=Node.State.LOST)
    services.tick(after(9_999))
    assert fresh(eviction).state == State.STOPPING


@pytest.mark.parametrize(
    ("make", "state"), [(a_proposal, State.SUPERSEDED), (a_dispatched, State.COMPLETED)]
)
def test_the_sweep_closes_what_an_ended_placement_left_open(make, state):
    eviction = make()
    Placement.objects.update(state="ENDED", end_reason="lost")
    services.tick(after(20))
    row = fresh(eviction)
    assert (row.state, row.finished_first) == (state, False)


def test_one_row_that_somebody_else_changed_does_not_stop_the_others(monkeypatch):
    first = a_proposal(origin=Origin.MOVE)
    other = a_placement(a_gpu(first.gpu.node, 1), a_job("gpt2-ft-12"))
    second = a_proposal(other, Origin.MOVE)
    rows = list(queries.due_or_under_way(after(1_800)))
    services.keep(first.pk, an_approver(), "", after(1_799))
    monkeypatch.setattr(queries, "due_or_under_way", lambda _: rows)
    assert services.tick(after(1_800)) == 1
    assert fresh(first).state == State.REJECTED
    assert fresh(second).state == State.EXPIRED


def test_a_quiet_tick_asks_the_database_once(django_assert_num_queries):
    a_proposal()
    with django_assert_num_queries(1):
        assert services.tick(after(1)) == 0


def test_stops_under_way_cost_no_query_each(django_assert_max_num_queries):
    gpu = a_gpu_in_use()
    services.agent_started(gpu.node, a_start(a_placement(gpu)), NOW)
    with django_assert_max_num_queries(3):
        assert services.tick(after(1)) == 0


def test_an_emergency_is_never_held_back_by_a_lane():
    gpu = a_gpu_in_use()
    placement = a_placement(gpu)
    eviction = services.agent_started(gpu.node, a_start(placement, Origin.EMERGENCY), NOW)
    assert eviction.state == State.STOPPING
    assert Entry.objects.filter(action="eviction.begin", actor="agent:node-01").count() == 1
