"""Deciding on the moves of a round, on its page and by the API."""

from __future__ import annotations

import pytest
from django.utils import timezone

from console.accounts.models import Role
from console.evictions.models import Eviction
from console.inventory.models import Node
from console.scheduling.models import MovePlan
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_pool
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


@pytest.fixture
def plan(grid):
    """Two moves that wait for a decision."""
    gpus = sharing_gpus(4)
    grid.update(live(*gpus))
    running = [a_running(a_waiting_job(f"job-{n}"), gpus[n]) for n in range(2)]
    moves = [a_move(one, gpus[2 + n], chain=n) for n, one in enumerate(running)]
    return a_round(now=timezone.now(), decided=moving(*moves)).plan


@pytest.fixture
def approver(client):
    client.force_login(a_user("ortega", Role.APPROVER))
    return client


def states() -> list[str]:
    return sorted(Eviction.objects.values_list("state", flat=True))


def page(client, plan) -> str:
    return client.get(f"/rounds/{plan.pk}/").content.decode()


def decide(client, plan, **posted):
    return client.post(f"/rounds/{plan.pk}/plan/", {"reason": "On the evidence", **posted})


def test_the_page_says_what_happens_without_a_decision(approver, plan):
    text = page(approver, plan)
    assert "No decision by" in text
    assert "all of it is dropped" in text
    assert text.count('type="checkbox"') == 2


def test_approving_on_the_page(approver, plan):
    assert decide(approver, plan, decide="approve").status_code == 302
    assert states() == ["APPROVED", "APPROVED"]
    assert "Approve the plan" not in page(approver, plan)


def test_only_the_ticked_moves_go(approver, plan):
    first = Eviction.objects.order_by("pk").first()
    decide(approver, plan, decide="trim", move=str(first.pk))
    first.refresh_from_db()
    assert (first.state, states()) == ("APPROVED", ["APPROVED", "REJECTED"])


def test_with_nothing_ticked_it_says_to_reject(approver, plan):
    answer = decide(approver, plan, decide="trim")
    assert answer.status_code == 409
    assert "reject it instead" in answer.content.decode()


def test_whoever_comes_second_sees_the_plan_as_it_is_now(approver, plan):
    decide(approver, plan, decide="reject")
    answer = decide(approver, plan, decide="approve")
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "Somebody was first. ortega rejected it" in text
    assert 'name="decide"' not in text


def test_a_word_that_is_no_decision_is_not_found(approver, plan):
    assert decide(approver, plan, decide="maybe").status_code == 404


def test_a_viewer_sees_why_the_buttons_are_closed(client, plan):
    client.force_login(a_user("lindqvist", Role.VIEWER))
    assert "You need the role approver" in page(client, plan)
    assert decide(client, plan, decide="approve").status_code == 403
    assert states() == ["PROPOSED", "PROPOSED"]


def test_whoever_sees_only_some_of_the_moves_does_not_decide(client, plan):
    Node.objects.update(pool=a_pool("batch"))
    client.force_login(a_user("stranger", Role.APPROVER, pool=a_pool("third")))
    assert "pools that you do not see" in page(client, plan)


def test_the_api_approves_without_what_is_struck_out(approver, plan):
    first = Eviction.objects.order_by("pk").first()
    address = f"/api/v1/rounds/{plan.pk}/plan/"
    posted = {"reason": "Trial", "strike": [str(first.pk)]}
    answer = approver.post(address, posted, content_type="application/json")
    assert (answer.status_code, answer.json()["state"]) == (200, "APPROVED")
    assert [move["state"] for move in answer.json()["moves"]] == ["REJECTED", "APPROVED"]
    assert approver.post(address, posted, content_type="application/json").status_code == 409


def test_the_api_rejects_a_plan(approver, plan):
    answer = approver.post(f"/api/v1/rounds/{plan.pk}/reject_plan/", {"reason": "Not now"})
    assert answer.json()["state"] == "REJECTED"


def test_a_round_without_moves_has_no_plan(approver, plan):
    MovePlan.objects.all().delete()
    assert approver.get(f"/api/v1/rounds/{plan.pk}/plan/").status_code == 404
    assert decide(approver, plan, decide="approve").status_code == 404
