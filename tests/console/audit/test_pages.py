"""The audit page and its API."""

from __future__ import annotations

from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse

from agents.wire.ids import uuid7
from console.accounts.models import Role, User
from console.audit import services
from console.audit.models import Entry
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool

pytestmark = pytest.mark.django_db

API = "/api/v1/audit/"


@pytest.fixture
def signed_in(client):
    def sign_in(user: User):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


def text_of(response) -> str:
    return " ".join(unescape(response.content.decode()).split())


def a_viewer() -> User:
    return a_user("lindqvist", Role.VIEWER)


def a_story() -> None:
    """A person cordons a node; the console changes a pool two hours later."""
    person = services.person(a_user("ortega", first_name="M.", last_name="Ortega"))
    node = a_node()
    services.record(
        person, "node.cordon", node, now=NOW, reason="Disk swap", before="OPEN", after="CLOSED"
    )
    later = NOW + timedelta(hours=2)
    services.record(
        services.system("sharing"), "pool.change", a_pool(), now=later, cause_id=uuid7()
    )


def test_the_page_says_who_did_what_to_which_object_and_why(signed_in):
    a_story()
    page = text_of(signed_in(a_viewer()).get(reverse("audit")))
    for words in ("M. Ortega", "node: cordon", "Disk swap", "open → closed", "sharing", "not yet"):
        assert words in page
    assert f'href="{reverse("node", args=["node-01"])}"' in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"actor": "ortega"}, {"node.cordon"}),
        ({"action": "pool."}, {"pool.change"}),
        ({"object_type": "inventory.pool"}, {"pool.change"}),
        ({"q": "disk"}, {"node.cordon"}),
        ({"since": "2026-09-01T13:00"}, {"pool.change"}),
        ({"until": "2026-09-01T13:00:00Z"}, {"node.cordon"}),
        ({"actor": "nobody"}, set()),
    ],
)
def test_it_is_narrowed_by_person_action_object_and_time(signed_in, query, found):
    a_story()
    page = text_of(signed_in(a_viewer()).get(reverse("audit"), query))
    shown = {name for name in ("node: cordon", "pool: change") if name in page}
    assert shown == {name.replace(".", ": ") for name in found}


def test_a_cause_can_be_followed(signed_in):
    a_story()
    cause = Entry.objects.exclude(cause_id=None).get().cause_id
    page = text_of(signed_in(a_viewer()).get(reverse("audit"), {"cause": str(cause)}))
    assert "pool: change" in page
    assert "node: cordon" not in page


@pytest.mark.parametrize("query", [{"since": "never"}, {"cause": "x"}, {"page": "99"}])
def test_a_filter_that_does_not_fit_is_no_error(signed_in, query):
    a_story()
    assert signed_in(a_viewer()).get(reverse("audit"), query).status_code == 200


def test_verifying_an_untouched_story(signed_in):
    a_story()
    services.seal(NOW)
    page = text_of(signed_in(a_viewer()).post(reverse("audit_verify")))
    assert "All 2 sealed entries are as they were written" in page


def test_verifying_finds_what_was_changed_and_says_where(signed_in):
    a_story()
    services.seal(NOW)
    Entry.objects.filter(sealed_number=1).update(reason="nothing")
    headers = {"HX-Request": "true"}
    page = text_of(signed_in(a_viewer()).post(reverse("audit_verify"), headers=headers))
    assert "The story was tampered with" in page
    assert '<b class="tn">1</b> was changed after it was sealed' in page
    assert "<html" not in page


def test_somebody_without_a_role_sees_nothing(signed_in):
    client = signed_in(a_user("stranger"))
    assert client.get(reverse("audit")).status_code == 403
    assert client.post(reverse("audit_verify")).status_code == 403
    assert client.get(API).status_code == 403


def test_what_came_from_outside_is_shown_as_text(signed_in):
    node = a_node("<script>x()</script>")
    services.record(services.agent("<b>n</b>"), "node.hello", node, now=NOW, why="<i>why</i>")
    page = signed_in(a_viewer()).get(reverse("audit")).content.decode()
    for text in ("<script>x()", "<b>n</b>", "<i>why"):
        assert text not in page


def test_a_page_costs_the_same_for_one_entry_and_for_fifty(
    signed_in, django_assert_max_num_queries
):
    for _ in range(25):
        services.record(services.system("sharing"), "pool.change", a_pool(), now=NOW)
    client = signed_in(a_viewer())
    with django_assert_max_num_queries(8):
        client.get(reverse("audit"))


def test_the_api_lists_and_verifies(signed_in):
    a_story()
    services.seal(NOW)
    client = signed_in(a_viewer())
    newest, oldest = client.get(API).json()["results"]
    assert (newest["action"], oldest["details"]) == (
        "pool.change",
        {"before": "OPEN", "after": "CLOSED"},
    )
    assert client.get(f"{API}?actor=ortega").json()["count"] == 1
    assert client.post(f"{API}verify/").json() == {"sealed": 2, "waiting": 0, "faults": []}


def test_the_api_changes_nothing(signed_in):
    a_story()
    client = signed_in(a_user("okafor", Role.ADMIN))
    one = f"{API}{Entry.objects.first().pk}/"
    for method in (client.put, client.patch, client.delete):
        assert method(one, {}, content_type="application/json").status_code == 405


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
@pytest.mark.parametrize("address", ["/audit/", API, "/api/v1/evictions/"])
def test_a_time_at_the_end_of_the_calendar_is_no_failure(signed_in, address, moment):
    client = signed_in(a_viewer())
    assert client.get(address, {"since": moment, "until": moment}).status_code < 500
