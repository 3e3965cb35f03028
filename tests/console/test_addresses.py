"""Where a person is sent afterwards: only ever to a page of this console."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from console.pages import back, ours

OURS = ["/nodes/?pool=web", "/evictions/#first"]
NOT_OURS = [
    "", "overview", "-1", "admin:index", "nodes/", "javascript:alert(1)", "https://example.org/",
    "//example.org/", "///example.org/", "/\\example.org/", "http://[bad", "\t//example.org/",
]  # fmt: skip


@pytest.mark.parametrize("wanted", OURS)
def test_a_path_of_ours_is_taken(wanted):
    assert ours(wanted, "overview") == wanted


@pytest.mark.parametrize("wanted", NOT_OURS)
def test_anything_else_leads_to_the_default(wanted):
    assert ours(wanted, "overview") == "/"


@pytest.mark.parametrize("referer", ["http://[bad", "http://example.org/nodes/", "nodes"])
def test_a_page_before_that_is_not_ours_is_forgotten(referer):
    asked = RequestFactory().post("/", headers={"referer": referer, "host": "localhost"})
    assert back(asked, "overview") == "/"


def test_the_page_before_is_gone_back_to_with_its_filters():
    came_from = {"referer": "http://localhost/jobs/?state=QUEUED", "host": "localhost"}
    assert back(RequestFactory().post("/", headers=came_from), "overview") == "/jobs/?state=QUEUED"
