from __future__ import annotations

import re

import pytest

from tests.console.evictions.cast import a_viewer

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client, settings):
    settings.MUXFLOW_DEMO = False
    client.force_login(a_viewer(), backend="django.contrib.auth.backends.ModelBackend")
    return client.get("/")


def policy(response) -> dict[str, str]:
    parts = response.headers["Content-Security-Policy"].split("; ")
    return dict(part.split(" ", 1) for part in parts)


def test_nothing_inline_may_run_but_the_import_map(page):
    nonce = re.search(r'<script type="importmap" nonce="([^"]+)"', page.content.decode())[1]
    assert policy(page)["script-src"] == f"'self' 'nonce-{nonce}'"
    assert policy(page)["style-src"] == "'self'"


def test_each_answer_has_a_nonce_of_its_own(client):
    first, second = client.get("/sign-in/"), client.get("/sign-in/")
    assert policy(first)["script-src"] != policy(second)["script-src"]


def test_connections_go_to_this_host_alone(client):
    assert policy(client.get("/sign-in/"))["connect-src"] == "'self'"


def test_a_wrong_host_is_refused_with_the_policy_on(client):
    answer = client.get("/sign-in/", headers={"host": "evil.example"})
    assert answer.status_code == 400
    assert policy(answer)["default-src"] == "'self'"
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_no_page_may_be_framed(page):
    assert policy(page)["frame-ancestors"] == "'none'"
    assert page.headers["X-Frame-Options"] == "DENY"


def test_the_page_writes_nothing_that_the_policy_would_stop(page):
    html = page.content.decode()
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style", html)


@pytest.mark.parametrize(
    "address", ["/nodes/%00/", "/nodes/?q=a%00b", "/nodes/?%00=1", "/api/v1/nodes/%00/"]
)
def test_nul_in_an_address_is_a_malformed_request(client, address):
    answer = client.get(address)
    assert answer.status_code == 400
    assert policy(answer)["default-src"] == "'self'"


def test_nul_in_a_form_is_a_malformed_request(client):
    answer = client.post("/sign-in/", {"username": "a\x00b", "password": "c"})
    assert answer.status_code == 400
    assert "cannot read this request" in answer.content.decode()


def test_json_nested_without_end_is_a_malformed_request(client):
    client.force_login(a_viewer(), backend="django.contrib.auth.backends.ModelBackend")
    answer = client.post("/api/v1/tokens/", "[" * 5_000, content_type="application/json")
    assert answer.status_code == 400
    assert "nested" in answer.json()["detail"]


@pytest.mark.parametrize("text", ['"\\u0000"', '{"a\\u0000": 1}', '[["\\ud800"]]'])
def test_json_with_a_text_that_no_column_holds_is_a_malformed_request(client, text):
    client.force_login(a_viewer(), backend="django.contrib.auth.backends.ModelBackend")
    answer = client.post("/api/v1/tokens/", text, content_type="application/json")
    assert answer.status_code == 400
    assert "NUL" in answer.json()["detail"]
