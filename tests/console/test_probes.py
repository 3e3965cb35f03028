from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from django.test import RequestFactory

from console import probes


@pytest.fixture
def answers(monkeypatch):
    """What `readyz` says where database and Redis are well."""
    monkeypatch.setattr(probes, "_database", lambda: ("database", ""))
    monkeypatch.setattr(probes, "_redis", lambda: ("redis", ""))

    def ask(*, is_running: bool, knows_the_fleet: bool):
        hub = SimpleNamespace(is_running=is_running, knows_the_fleet=knows_the_fleet)
        monkeypatch.setattr(probes, "hub", hub)
        response = probes.readyz(RequestFactory().get("/readyz"))
        return response.status_code, list(json.loads(response.content)["failures"])

    return ask


def test_a_process_that_has_just_begun_is_not_ready(answers):
    assert answers(is_running=True, knows_the_fleet=False) == (503, ["fleet"])


def test_it_is_once_it_knows_the_fleet_and_where_it_serves_none(answers):
    assert answers(is_running=True, knows_the_fleet=True) == (200, [])
    assert answers(is_running=False, knows_the_fleet=False) == (200, [])


def test_the_silent_one_is_named(answers, monkeypatch):
    monkeypatch.setattr(probes, "_redis", lambda: ("redis", "connection refused"))
    response = probes.readyz(RequestFactory().get("/readyz"))
    assert response.status_code == 503
    assert json.loads(response.content)["failures"] == {"redis": "connection refused"}
