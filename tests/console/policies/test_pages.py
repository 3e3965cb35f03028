"""The policy pages and their API."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from console.accounts.models import Role, User
from console.inventory.models import Node
from console.policies import form, rules, services
from console.policies.models import PolicyVersion
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW
from tests.console.policies.cast import a_policy, an_author, body_of, find, with_memory

pytestmark = pytest.mark.django_db

EDIT = "/policies/balanced/edit/"
API = "/api/v1/policies/balanced/"


@pytest.fixture
def signed_in(client):
    def sign_in(user: User):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


def text_of(response) -> str:
    return " ".join(unescape(response.content.decode()).split())


def filled(policy, **typed: str) -> dict[str, str]:
    """The form as a browser sends it, with `typed` changed in it."""
    body = body_of(policy)
    built = form.build(body, body)
    rows: list[Any] = [*built.thresholds, *built.lanes]
    fields = [field for row in rows for field in row.fields]
    sent = {field.path: field.value for field in (*fields, *built.scalars)}
    return sent | {"seen": str(policy.current.number), "reason": "Trial", "note": ""} | typed


def test_the_list_says_what_is_in_force_where_and_by_whom(signed_in):
    policy = a_policy(gpus=2)
    services.save_version(policy, with_memory(policy, 92), an_author(), "Incident 7", NOW)
    page = text_of(signed_in(a_user("viewer", Role.VIEWER)).get(reverse("policies")))
    assert "Balanced" in page
    assert "v2" in page
    assert "M. Ortega" in page
    assert "0 of 1 nodes" in page


def test_saving_the_form_makes_a_version_and_shows_it_arriving(signed_in):
    policy, client = a_policy(), signed_in(an_author())
    response = client.post(EDIT, filled(policy, grace_s="45", note="nightly"))
    assert response.headers["Location"] == "/policies/balanced/?saved=2"
    version = find().current
    assert (version.number, version.reason) == (2, "Trial: nightly")
    assert body_of(find()).grace_s == 45.0
    page = text_of(client.get(response.headers["Location"]))
    assert "0 of 1</b> nodes report v2" in page
    assert "Grace to save, after SIGTERM" in page
    assert 'hx-trigger="every 1s"' in page


def test_once_all_nodes_report_it_the_page_stops_asking_so_often(signed_in):
    a_policy()
    Node.objects.update(observed_policies={"balanced@1": 1})
    headers = {"HX-Request": "true", "HX-Target": "applied"}
    response = signed_in(a_user("viewer", Role.VIEWER)).get("/policies/balanced/", headers=headers)
    assert 'All <b class="tn">1</b> nodes report v1' in text_of(response)
    assert 'hx-trigger="every 10s"' in response.content.decode()
    assert "<html" not in response.content.decode()


def test_a_bad_value_comes_back_with_what_was_typed_and_why(signed_in):
    policy = a_policy()
    response = signed_in(an_author()).post(EDIT, filled(policy, grace_s="soon"))
    page = text_of(response)
    assert response.status_code == 422
    assert 'value="soon"' in page
    assert 'id="e-grace_s">write a number' in page
    assert PolicyVersion.objects.filter(policy=policy).count() == 1


def test_a_reason_is_required(signed_in):
    policy = a_policy()
    response = signed_in(an_author()).post(EDIT, filled(policy, grace_s="45", reason=""))
    assert response.status_code == 422
    assert "choose or write a reason" in text_of(response)


def test_the_second_editor_sees_who_was_first_and_keeps_what_they_typed(signed_in):
    policy = a_policy()
    sent = filled(policy, grace_s="45")
    services.save_version(policy, with_memory(policy, 92), an_author(), "Incident", NOW)
    client = signed_in(a_user("okafor", Role.POLICY_AUTHOR))
    response = client.post(EDIT, sent)
    page = text_of(response)
    assert response.status_code == 409
    assert "M. Ortega was first and saved version 2" in page
    assert 'value="45"' in page
    assert find().current.number == 2


def test_a_form_can_start_from_a_preset(signed_in):
    a_policy()
    page = text_of(signed_in(an_author()).get(EDIT, {"from": "aggressive"}))
    assert f'value="{rules.PRESETS["aggressive"].grace_s:g}"' in page
    assert '<a href="?from=aggressive" aria-current="true">' in page


def test_a_viewer_reads_and_cannot_edit(signed_in):
    policy, client = a_policy(), signed_in(a_user("viewer", Role.VIEWER))
    assert "You need the role policy author" in text_of(client.get("/policies/balanced/"))
    assert client.get(EDIT).status_code == 403
    assert client.post(EDIT, filled(policy, grace_s="45")).status_code == 403
    assert find().current.number == 1


def test_any_two_versions_can_be_compared(signed_in):
    policy, author = a_policy(), an_author()
    for upper in (91, 92, 93):
        services.save_version(policy, with_memory(policy, upper), author, "Trial", NOW)
    client = signed_in(author)
    page = text_of(client.get("/policies/balanced/", {"a": "2", "b": "4"}))
    assert "v2 → v4" in page
    assert "<del>91 %</del>" in page
    assert "<b>93 %</b>" in page
    assert client.get("/policies/balanced/", {"a": "x", "b": "99"}).status_code == 200


def test_an_unknown_policy_is_not_found(signed_in):
    client = signed_in(an_author())
    assert client.get("/policies/nobody/").status_code == 404
    assert client.get("/policies/nobody/edit/").status_code == 404


def test_reasons_and_names_from_outside_are_shown_as_text(signed_in):
    policy, author = a_policy(), an_author()
    services.save_version(policy, with_memory(policy, 92), author, "<script>x()</script>", NOW)
    for url in ("/policies/", "/policies/balanced/", EDIT):
        assert "<script>x()" not in signed_in(author).get(url).content.decode()


def test_the_pages_cost_few_queries(signed_in, django_assert_max_num_queries):
    a_policy(gpus=8)
    client = signed_in(an_author())
    for url, most in (("/policies/", 14), ("/policies/balanced/", 12), (EDIT, 10)):
        with django_assert_max_num_queries(most):
            client.get(url)


# --- the API ----------------------------------------------------------------------------------


def test_the_api_lists_policies_and_versions(signed_in):
    a_policy()
    client = signed_in(a_user("viewer", Role.VIEWER))
    found = client.get("/api/v1/policies/").json()["results"]
    assert [one["slug"] for one in found] == ["aggressive", "balanced", "conservative"]
    assert client.get(API).json()["current"]["number"] == 1
    assert [one["number"] for one in client.get(f"{API}versions/").json()] == [1]
    assert client.get(f"{API}applied/").json() == {"number": 1, "nodes": 1, "on_it": 0}


def test_the_api_saves_a_version(signed_in):
    policy, client = a_policy(), signed_in(an_author())
    body = rules.to_json(with_memory(policy, 92))
    sent = {"body": body, "reason": "Trial", "based_on": 1}
    answer = client.post(f"{API}versions/", sent, content_type="application/json")
    assert (answer.status_code, answer.json()["number"]) == (201, 2)
    again = client.post(f"{API}versions/", sent, content_type="application/json")
    assert again.status_code == 409
    assert "saved version 2" in again.json()["detail"]


def test_the_api_names_the_fields_that_do_not_fit(signed_in):
    policy, client = a_policy(), signed_in(an_author())
    body = rules.to_json(with_memory(policy, 60))
    sent = {"body": body, "reason": "Trial", "based_on": 1}
    answer = client.post(f"{API}versions/", sent, content_type="application/json")
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == ["thresholds.memory.upper"]


def test_the_api_refuses_a_viewer(signed_in):
    policy, client = a_policy(), signed_in(a_user("viewer", Role.VIEWER))
    sent = {"body": rules.to_json(body_of(policy)), "reason": "x", "based_on": 1}
    answer = client.post(f"{API}versions/", sent, content_type="application/json")
    assert answer.status_code == 403
