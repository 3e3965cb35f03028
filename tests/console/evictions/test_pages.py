"""The inbox and its parts, as people see and use them."""

from __future__ import annotations

from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.wire.names import Origin
from console.accounts.models import Role, User
from console.evictions import services
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.inventory.models import Node
from tests.console.accounts.cast import a_user
from tests.console.evictions.cast import (
    NOW,
    a_dispatched,
    a_gpu_in_use,
    a_job,
    a_phase,
    a_placement,
    a_proposal,
    a_start,
    a_viewer,
    after,
    an_approver,
    an_end,
    fresh,
)
from tests.console.inventory.cast import a_gpu, a_pool

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true", "HX-Target": "eviction-live"}


@pytest.fixture
def signed_in(client):
    def sign_in(user: User):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


def text_of(response) -> str:
    return " ".join(unescape(response.content.decode()).split())


def address(eviction: Eviction, step: str = "") -> str:
    name = f"eviction_{step}" if step else "eviction"
    return reverse(name, args=[eviction.pk])


def soon(eviction: Eviction) -> Eviction:
    """With a deadline that lies ahead of the real clock, as views read it."""
    Eviction.objects.filter(pk=eviction.pk).update(
        deadline_at=timezone.now() + timedelta(minutes=3), proposed_at=timezone.now()
    )
    return eviction


def test_the_inbox_opens_what_waits_with_both_choices_and_what_they_do(signed_in):
    soon(a_proposal())
    page = text_of(signed_in(an_approver()).get(reverse("evictions")))
    assert "resnet-31 off node-01 / GPU 0" in page
    assert "loses ≈ 14 min of unsaved work" in page
    assert "Undo for 10 s, then dispatched" in page
    assert "Rule then silent here for 30 min" in page
    assert "it runs" in page


def test_an_empty_inbox_says_what_to_do_next(signed_in):
    page = text_of(signed_in(an_approver()).get(reverse("evictions")))
    assert "Nothing waits for a person" in page
    assert reverse("policies") in page


def test_evicting_with_a_chip_and_a_note(signed_in):
    eviction = soon(a_proposal())
    response = signed_in(an_approver()).post(
        address(eviction, "approve"), {"reason": "Incident", "note": "INC-7"}
    )
    assert response.headers["Location"] == address(eviction)
    row = fresh(eviction)
    assert (row.state, row.reason) == (State.APPROVED, "Incident: INC-7")


def test_htmx_gets_the_live_parts_and_a_word_to_read_the_list_again(signed_in):
    eviction = soon(a_proposal())
    response = signed_in(an_approver()).post(address(eviction, "approve"), headers=HTMX)
    page = text_of(response)
    assert "<html" not in page
    assert "Approved by you" in page
    assert 'id="eviction-stages" hx-swap-oob="true"' in page
    assert response.headers["HX-Trigger"] == "mf-evictions"


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "htmx"])
def test_the_second_approver_sees_who_was_first_on_a_fresh_page(signed_in, headers):
    eviction = soon(a_proposal())
    services.keep(eviction.pk, an_approver(), "Traffic test", timezone.now())
    second = signed_in(a_user("okafor", Role.APPROVER))
    response = second.post(address(eviction, "approve"), headers=headers)
    page = text_of(response)
    assert response.status_code == 409
    assert "M. Ortega was first: kept running" in page
    assert "keeps running on" in page


def test_undo_over_http(signed_in):
    eviction = soon(a_proposal())
    client = signed_in(an_approver())
    client.post(address(eviction, "approve"))
    client.post(address(eviction, "undo"))
    assert fresh(eviction).state == State.PROPOSED


def test_undo_after_dispatch_is_a_conflict_with_its_story(signed_in):
    eviction = a_dispatched(user=an_approver())
    client = signed_in(User.objects.get(username="ortega"))
    response = client.post(address(eviction, "undo"))
    assert response.status_code == 409
    assert "the node has been told" in text_of(response)


def test_a_viewer_sees_why_the_buttons_are_closed_and_cannot_press_them(signed_in):
    eviction = soon(a_proposal())
    client = signed_in(a_viewer())
    page = text_of(client.get(address(eviction)))
    assert "You need the role approver" in page
    assert "data-needs-fresh" not in page
    assert client.post(address(eviction, "approve")).status_code == 403
    assert client.post(address(eviction, "keep")).status_code == 403
    assert fresh(eviction).state == State.PROPOSED


def test_somebody_of_another_pool_does_not_find_it(signed_in):
    eviction = soon(a_proposal())
    stranger = a_user("okafor", Role.APPROVER, pool=a_pool("other"))
    client = signed_in(stranger)
    assert client.get(address(eviction)).status_code == 404
    assert client.post(address(eviction, "approve")).status_code == 404
    assert "resnet-31" not in text_of(client.get(reverse("evictions")))


def test_a_silent_node_closes_evict_and_says_so(signed_in):
    eviction = soon(a_proposal())
    Node.objects.update(state=Node.State.STALE)
    page = text_of(signed_in(an_approver()).get(address(eviction)))
    assert "node-01 does not answer" in page
    assert 'data-key="e"' not in page
    assert 'data-key="r"' in page


def test_a_decision_needs_fresh_data_in_the_browser_too(signed_in):
    eviction = soon(a_proposal())
    page = text_of(signed_in(an_approver()).get(address(eviction)))
    assert page.count("data-needs-fresh") == 2  # the button, and the one at the thumb


@pytest.mark.parametrize("target", ["inbox", "opened", "eviction-live"])
def test_each_part_of_the_page_can_be_read_again_by_itself(signed_in, target):
    eviction = soon(a_proposal())
    headers = {"HX-Request": "true", "HX-Target": target}
    page = text_of(signed_in(an_approver()).get(address(eviction), headers=headers))
    assert f'id="{target}"' in page
    assert "<html" not in page


def test_names_and_reasons_from_outside_are_shown_as_text(signed_in):
    job = a_job("<script>alert(1)</script>")
    placement = a_placement(job=job)
    eviction = services.propose(placement, Origin.SLO, "<img src=x onerror=alert(2)>", {}, NOW)
    assert eviction is not None
    services.keep(soon(eviction).pk, an_approver(), "<b>bold</b>", timezone.now())
    client = signed_in(a_viewer())
    for url in (address(eviction), reverse("evictions"), reverse("evictions") + "?view=history"):
        page = client.get(url).content.decode()
        assert "<script>alert(1)" not in page
        assert "<img src=x" not in page
        assert "<b>bold" not in page


def test_phases_show_on_the_stage_bar_and_in_the_list(signed_in):
    eviction = a_dispatched()
    report = a_phase(eviction, "CHECKPOINTED", 14)
    services.agent_phase(eviction.gpu.node, report, after(14))
    page = text_of(signed_in(a_viewer()).get(address(eviction)))
    assert "Checkpointed; gated next" in page
    assert '<li class="now" aria-current="step"><b>Gated</b>' in page


def test_once_it_is_done_the_page_says_what_it_cost(signed_in):
    eviction = a_dispatched()
    report = a_phase(eviction, "MEMORY_RETURNED", 20, memory_bytes=11 << 30)
    services.agent_phase(eviction.gpu.node, report, after(20))
    end = an_end(eviction.placement, lost_work_s=120.0)
    services.placement_ended(eviction.placement, end, after(21))
    page = text_of(signed_in(a_viewer()).get(address(eviction)))
    assert "lost 2 min" in page
    assert "freed 11.0 GiB" in page
    assert "memory returned" in page


# --- evicting by hand -------------------------------------------------------------------------


def test_a_person_evicts_the_guest_of_a_gpu_with_a_reason(signed_in):
    placement = a_placement()
    client, url = signed_in(an_approver()), reverse("eviction_new", args=[placement.gpu_id])
    asked = text_of(client.get(url, headers={"HX-Request": "true"}))
    assert "Evict resnet-31 from node-01 / GPU 0" in asked
    response = client.post(url, {"reason": "Owner asked"})
    eviction = Eviction.objects.get()
    assert response.headers["Location"] == address(eviction)
    assert (eviction.origin, eviction.state, eviction.reason) == (
        Origin.POLICY,
        State.APPROVED,
        "Owner asked",
    )


def test_a_viewer_cannot_evict_by_hand(signed_in):
    placement = a_placement()
    url = reverse("eviction_new", args=[placement.gpu_id])
    assert signed_in(a_viewer()).post(url, {"reason": "x"}).status_code == 403
    assert not Eviction.objects.exists()


def test_evicting_from_an_empty_gpu_finds_nothing(signed_in):
    gpu = a_gpu_in_use()
    client, url = signed_in(an_approver()), reverse("eviction_new", args=[gpu.pk])
    assert "No offline job runs" in text_of(client.get(url))
    assert client.post(url, {"reason": "x"}).status_code == 404


# --- reviewing --------------------------------------------------------------------------------


def emergencies(count: int) -> list[Eviction]:
    gpu, job, made = a_gpu_in_use(), a_job(), []
    for _ in range(count):
        placement = a_placement(gpu, job)
        begun = services.agent_started(gpu.node, a_start(placement, Origin.EMERGENCY), NOW)
        made.append(fresh(begun))
        services.placement_ended(placement, an_end(placement, lost_work_s=60.0), after(5))
        placement.state = "ENDED"
        placement.save()
    return made


def test_emergencies_of_one_gpu_and_day_are_one_line_and_one_click(signed_in):
    made = emergencies(3)
    client = signed_in(an_approver())
    assert "3 × emergency on node-01 / GPU 0" in text_of(client.get(reverse("evictions")))
    key = f"{made[0].gpu_id}.emergency.{NOW:%Y-%m-%d}"
    group = client.get(reverse("evictions"), {"review": key})
    assert text_of(group).count('name="eviction"') == 3
    ids = [eviction.pk for eviction in made]
    client.post(reverse("eviction_review"), {"eviction": ids, "reason": "As it should be"})
    assert not Eviction.objects.filter(review=Eviction.Review.WANTED).exists()


def test_single_emergencies_are_looked_at_together(signed_in):
    emergencies(1)
    page = text_of(signed_in(a_viewer()).get(reverse("evictions")))
    assert "1 single stop by the nodes themselves" in page
    assert "Nothing waits for a person" in page
    assert '<a class="b" href="/evictions/?review=singles">' in page
    group = text_of(signed_in(a_viewer_again()).get(reverse("evictions"), {"review": "singles"}))
    assert "1 stop by the nodes themselves" in group


def a_viewer_again() -> User:
    return User.objects.get(username="lindqvist")


@pytest.mark.parametrize("key", ["x", "1.2", "1.emergency.never", "0.emergency.2026-09-01", "..."])
def test_a_group_that_does_not_exist_shows_the_inbox(signed_in, key):
    response = signed_in(an_approver()).get(reverse("evictions"), {"review": key})
    assert response.status_code == 200


@pytest.mark.parametrize("ids", [["x"], ["019f0000-0000-7000-8000-000000000000"], []])
def test_reviewing_what_does_not_exist_is_not_found(signed_in, ids):
    response = signed_in(an_approver()).post(reverse("eviction_review"), {"eviction": ids})
    assert response.status_code == 404


def test_a_viewer_cannot_review(signed_in):
    (made,) = emergencies(1)
    client = signed_in(a_viewer())
    assert client.post(reverse("eviction_review"), {"eviction": [made.pk]}).status_code == 403


# --- history and cost -------------------------------------------------------------------------


def test_the_history_is_filtered_by_its_address(signed_in):
    kept = a_proposal()
    services.keep(kept.pk, an_approver(), "Traffic test", NOW)
    client, url = signed_in(a_viewer()), reverse("evictions")
    history = {"view": "history"}
    assert "resnet-31" in text_of(client.get(url, history))
    assert "resnet-31" in text_of(client.get(url, history | {"q": "RESNET", "origin": "slo"}))
    for other in ({"origin": "move"}, {"outcome": "COMPLETED"}, {"q": "bert"}):
        assert "No eviction matches" in text_of(client.get(url, history | other))


def test_the_inbox_costs_the_same_for_one_and_for_many(signed_in, django_assert_max_num_queries):
    soon(a_proposal())
    node = Node.objects.get()
    for index in range(1, 8):
        job = a_job(f"bert-{index}")
        a_proposal(a_placement(a_gpu(node, index), job), Origin.MOVE)
    client = signed_in(an_approver())
    with django_assert_max_num_queries(22):
        client.get(reverse("evictions"))


def test_reading_the_list_again_is_cheap(signed_in, django_assert_max_num_queries):
    eviction = soon(a_proposal())
    client = signed_in(an_approver())
    with django_assert_max_num_queries(12):
        client.get(address(eviction), headers={"HX-Request": "true", "HX-Target": "inbox"})


def test_the_chart_answers_without_any_history(signed_in):
    eviction = soon(a_proposal())
    chart = signed_in(a_viewer()).get(address(eviction, "chart")).json()
    assert chart["x"] == []
    assert chart["series"][0]["values"] == []
