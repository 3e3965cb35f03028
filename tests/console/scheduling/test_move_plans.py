"""The moves of a round: one plan, decided once, by a person or by the clock."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import product

import msgspec
import pytest
from django.core.exceptions import PermissionDenied

from agents.wire.names import Origin
from console.accounts.models import Role
from console.audit.models import Entry
from console.errors import IllegalTransition, Invalid, SomebodyWasFirst
from console.evictions import services as evictions
from console.evictions.models import Eviction, Silence
from console.inventory.models import Node
from console.policies import rules
from console.policies.models import PolicyVersion
from console.policies.rules import Lane, Mode
from console.scheduling import move_plans, plan_lifecycle
from console.scheduling.models import MovePlan, Placement
from console.scheduling.plan_lifecycle import PLAN_TRANSITIONS, PlanEvent, PlanState
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_pool
from tests.console.scheduling.cast import (
    a_move,
    a_round,
    a_running,
    a_waiting_job,
    live,
    moving,
    sharing_gpus,
)

pytestmark = pytest.mark.django_db


def after(seconds: float):
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def gpus(grid):
    found = sharing_gpus(6)
    grid.update(live(*found))
    return found


@pytest.fixture
def moves(gpus):
    """Two jobs that should go to the other GPUs, and the first of a chain of two."""
    running = [a_running(a_waiting_job(f"job-{n}"), gpus[n]) for n in range(3)]
    chains = (1, 2, 2)
    return [a_move(placement, gpus[3 + n], chain=chains[n]) for n, placement in enumerate(running)]


@pytest.fixture
def plan(moves):
    return a_round(decided=moving(*moves)).plan


@pytest.fixture
def ortega():
    return a_user("ortega", Role.APPROVER)


def states() -> Counter:
    return Counter(Eviction.objects.values_list("state", flat=True))


def policy_says(**changes) -> None:
    version = PolicyVersion.objects.get(policy__slug="balanced")
    body = msgspec.structs.replace(rules.parse(version.body), **changes)
    PolicyVersion.objects.filter(pk=version.pk).update(body=rules.to_json(body))


# --- how it begins ------------------------------------------------------------------------


def test_the_moves_of_a_round_wait_as_one_plan_with_one_deadline(plan):
    lane = rules.PRESETS["balanced"].lane(Origin.MOVE)
    assert (plan.state, plan.default) == ("PROPOSED", "keep")
    assert plan.deadline_at > after(lane.deadline_s - 1)
    assert set(Eviction.objects.values_list("deadline_at", flat=True)) == {plan.deadline_at}


def test_a_chain_of_which_one_move_became_impossible_is_left_out_whole(moves):
    Silence.objects.create(placement_id=moves[2].placement_id, origin="move", until=after(60))
    row = a_round(decided=moving(*moves))
    assert list(row.eviction_set.values_list("placement", flat=True)) == [moves[0].placement_id]


def test_without_a_move_that_is_possible_there_is_no_plan(moves):
    Placement.objects.update(state="FROZEN")
    a_round(decided=moving(*moves))
    assert not MovePlan.objects.exists()


LANES = rules.PRESETS["balanced"].lanes
ITSELF = LANES | {Origin.MOVE: Lane(Mode.AUTOMATIC, 6)}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"lanes": ITSELF, "moves_by_itself": 3}, "APPROVED"),
        ({"lanes": ITSELF, "moves_by_itself": 2}, "PROPOSED"),
        (
            {"lanes": LANES | {Origin.MOVE: Lane(Mode.AUTOMATIC, 2)}, "moves_by_itself": 3},
            "PROPOSED",
        ),
        ({"moves_by_itself": 3}, "PROPOSED"),
    ],
)
def test_a_plan_goes_by_itself_only_within_every_budget(moves, changes, state):
    policy_says(**changes)
    plan = a_round(decided=moving(*moves)).plan
    assert plan.state == state
    assert states() == {state: 3}


# --- what people decide -------------------------------------------------------------------


def test_approving_a_plan_lets_all_its_moves_go(plan, ortega):
    move_plans.approve(plan.pk, ortega, "On the evidence", NOW)
    plan.refresh_from_db()
    assert (plan.state, plan.decided_by, plan.struck) == ("APPROVED", ortega, 0)
    assert states() == {"APPROVED": 3}
    told = Entry.objects.filter(action="plan.approve").get()
    assert (told.user, told.reason) == (ortega, "On the evidence")


def test_a_move_that_is_struck_out_stays_with_its_chain(plan, moves, ortega):
    struck = Eviction.objects.get(placement=moves[1].placement_id)
    move_plans.approve(plan.pk, ortega, "", NOW, [struck.pk])
    plan.refresh_from_db()
    assert plan.struck == 2
    kept = Eviction.objects.filter(state="REJECTED").values_list("placement", flat=True)
    assert set(kept) == {moves[1].placement_id, moves[2].placement_id}


def test_striking_everything_out_is_no_approval(plan, ortega):
    with pytest.raises(Invalid, match="reject it"):
        move_plans.approve(plan.pk, ortega, "", NOW, Eviction.objects.values_list("pk", flat=True))
    assert states() == {"PROPOSED": 3}


def test_rejecting_a_plan_keeps_every_job_and_silences_the_rule(plan, ortega):
    move_plans.reject(plan.pk, ortega, "", NOW)
    assert states() == {"REJECTED": 3}
    assert Silence.objects.filter(origin="move").count() == 3


def test_the_second_of_two_people_is_told_who_was_first(plan, ortega):
    move_plans.reject(plan.pk, ortega, "", NOW)
    with pytest.raises(SomebodyWasFirst, match=r"was first. ortega rejected it 5\ss ago"):
        move_plans.approve(plan.pk, a_user("okafor", Role.APPROVER), "", after(5))
    assert states() == {"REJECTED": 3}


def test_a_move_that_was_decided_by_itself_stays_decided(plan, moves, ortega):
    one = Eviction.objects.get(placement=moves[0].placement_id)
    evictions.keep(one.pk, ortega, "Owner asked", NOW)
    move_plans.approve(plan.pk, ortega, "", NOW)
    assert states() == {"REJECTED": 1, "APPROVED": 2}


def test_only_an_approver_of_every_pool_decides(plan):
    elsewhere = a_user("stranger", Role.APPROVER, pool=a_pool("batch"))
    for act in (move_plans.approve, move_plans.reject):
        with pytest.raises(PermissionDenied):
            act(plan.pk, elsewhere, "", NOW)
    assert states() == {"PROPOSED": 3}


def test_a_plan_whose_node_does_not_answer_is_not_approved_in_part(plan, ortega):
    Node.objects.update(state="STALE")
    with pytest.raises(Exception, match="does not answer"):
        move_plans.approve(plan.pk, ortega, "", NOW)
    plan.refresh_from_db()
    assert plan.state == "PROPOSED"
    assert states() == {"PROPOSED": 3}


# --- what the clock does ------------------------------------------------------------------


def test_a_plan_that_nobody_decides_expires_with_its_moves(plan):
    late = plan.deadline_at + timedelta(seconds=1)
    evictions.tick(late)
    assert move_plans.settle(late) == 1
    plan.refresh_from_db()
    assert (plan.state, plan.decided_by) == ("EXPIRED", None)
    assert states() == {"EXPIRED": 3}


def test_a_plan_whose_moves_were_decided_one_by_one_is_settled(plan, ortega):
    for one in Eviction.objects.all():
        evictions.keep(one.pk, ortega, "", NOW)
    move_plans.settle(NOW)
    plan.refresh_from_db()
    assert plan.state == "SETTLED"


def test_a_plan_with_a_move_that_waits_is_left_alone(plan):
    assert move_plans.settle(after(1)) == 0


# --- the table ----------------------------------------------------------------------------


def test_what_is_decided_stays_decided():
    for state, event in product(PlanState, PlanEvent):
        if (state, event) not in PLAN_TRANSITIONS:
            with pytest.raises(IllegalTransition):
                plan_lifecycle.next_plan_state(state, event, "the plan", "")
    assert {state for state, _ in PLAN_TRANSITIONS} == {PlanState.PROPOSED}


@pytest.mark.parametrize(
    ("moves", "event"),
    [
        ([("PROPOSED", False), ("EXPIRED", False)], None),
        ([("EXPIRED", False), ("REJECTED", True)], PlanEvent.DROP_BY_DEFAULT),
        ([("DISPATCHED", False)], PlanEvent.RUN_BY_DEFAULT),
        ([("DISPATCHED", True), ("SUPERSEDED", False)], PlanEvent.SETTLE),
        ([], PlanEvent.SETTLE),
    ],
)
def test_what_became_of_a_plan_that_nobody_decided(moves, event):
    assert plan_lifecycle.settled_by(moves) is event
