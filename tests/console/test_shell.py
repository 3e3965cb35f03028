from __future__ import annotations

import pytest
from django.test import RequestFactory

from console import shell
from tests.console.evictions.cast import a_proposal, a_viewer, an_approver

pytestmark = pytest.mark.django_db


def shell_of(user, path: str = "/") -> shell.Shell:
    request = RequestFactory().get(path)
    request.user = user
    return shell.Shell(request)


def test_the_page_shown_is_marked_in_the_navigation():
    here = [link.name for link in shell_of(a_viewer(), "/jobs/").first if link.here]
    assert here == ["jobs"]


def test_a_gpu_belongs_to_the_map():
    here = [link.name for link in shell_of(a_viewer(), "/gpus/7/").first if link.here]
    assert here == ["map"]


def test_a_page_under_more_marks_more():
    assert shell_of(a_viewer(), "/audit/").more_here


def test_the_count_holds_what_waits_for_a_person():
    a_proposal()
    assert shell_of(a_viewer()).pending_evictions == 1


def test_the_user_menu_names_person_and_role():
    found = shell_of(an_approver())
    assert (found.user_name, found.role.lower()) == ("M. Ortega", "approver")


def test_a_fragment_that_does_not_ask_costs_no_query(django_assert_num_queries):
    request = RequestFactory().get("/")
    with django_assert_num_queries(0):
        shell.context(request)


def test_every_link_of_the_navigation_leads_to_a_page(client):
    client.force_login(an_approver(), backend="django.contrib.auth.backends.ModelBackend")
    found = shell_of(a_viewer())
    answers = {link.name: client.get(link.url).status_code for link in (*found.first, *found.more)}
    assert set(answers.values()) == {200}, answers
