from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client

from agents.wire import faults
from console.accounts.models import User
from console.demo import people
from tests.console.demo import urls

pytestmark = [pytest.mark.django_db, pytest.mark.urls(urls.__name__)]


@pytest.fixture(autouse=True)
def cast(settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings.MUXFLOW_DEMO = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    people.create("a long password")
    monkeypatch.setenv("MUXFLOW_DEMO_FAULTS", str(tmp_path / "faults.sock"))


@pytest.fixture
def approver(client: Client) -> Client:
    client.post("/demo/sign-in/", {"role": "approver"})
    return client


def person(client: Client) -> str:
    return User.objects.get(pk=client.session["_auth_user_id"]).username


@pytest.mark.parametrize(
    ("role", "username"), [("viewer", "lindqvist"), ("approver", "ortega"), ("admin", "okafor")]
)
def test_one_click_signs_in_without_a_password(client: Client, role: str, username: str) -> None:
    response = client.post("/demo/sign-in/", {"role": role})
    assert response.headers["Location"] == "/"
    assert person(client) == username


def test_a_role_that_nobody_plays_signs_nobody_in(client: Client) -> None:
    assert client.post("/demo/sign-in/", {"role": "owner"}).status_code == 404
    assert "_auth_user_id" not in client.session


def test_a_link_alone_signs_nobody_in(client: Client) -> None:
    assert client.get("/demo/sign-in/").status_code == 405


def test_whom_one_acts_as_is_switched_on_the_page_where_one_is(approver: Client) -> None:
    response = approver.post("/demo/switch-user/", {"role": "admin", "next": "/jobs/?page=2"})
    assert response.headers["Location"] == "/jobs/?page=2"
    assert person(approver) == "okafor"


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"],
)
@pytest.mark.parametrize("address", ["/demo/sign-in/", "/demo/switch-user/"])
def test_nobody_is_sent_to_another_site(approver: Client, address: str, elsewhere: str) -> None:
    response = approver.post(address, {"role": "viewer", "next": elsewhere})
    assert response.headers["Location"] == "/"


@pytest.mark.parametrize("address", ["/demo/switch-user/", "/demo/fault/"])
def test_who_is_not_signed_in_switches_and_breaks_nothing(client: Client, address: str) -> None:
    response = client.post(address, {"role": "admin", "kind": "traffic_spike"})
    assert response.headers["Location"].startswith("/sign-in/")
    assert "_auth_user_id" not in client.session


def test_a_fault_that_the_panel_does_not_have_is_not_found(approver: Client) -> None:
    assert approver.post("/demo/fault/", {"kind": "meteorite"}).status_code == 404


def test_a_fleet_that_is_away_is_said_and_no_error(approver: Client) -> None:
    response = approver.post("/demo/fault/", {"kind": "traffic_spike", "next": "/map/"})
    assert response.headers["Location"] == "/map/"
    assert "does not answer" in told(response)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("traffic_spike", faults.TrafficSpike),
        ("kill_node", faults.KillNode),
        ("cut_console", faults.CutConsole),
    ],
)
def test_the_fleet_is_asked_and_its_own_words_are_shown(
    approver: Client, tmp_path: Path, kind: str, fault: type
) -> None:
    answer = faults.Answer(ok=True, detail="It is done.")
    with a_fleet(tmp_path / "faults.sock", answer) as asked:
        response = approver.post("/demo/fault/", {"kind": kind})
    assert [type(one) for one in asked] == [fault]
    assert told(response) == "It is done."


def test_a_refusal_of_the_fleet_is_shown(approver: Client, tmp_path: Path) -> None:
    answer = faults.Answer(ok=False, error="node-01 is down already")
    with a_fleet(tmp_path / "faults.sock", answer):
        response = approver.post("/demo/fault/", {"kind": "kill_node"})
    assert "refused: node-01 is down already" in told(response)


@pytest.mark.urls("console.urls")
@pytest.mark.parametrize("address", ["/demo/sign-in/", "/demo/switch-user/", "/demo/fault/"])
def test_outside_the_demo_there_is_no_such_address(client: Client, address: str) -> None:
    form = {"role": "admin", "kind": "kill_node"}
    assert client.post(address, form).status_code == 404
    assert "_auth_user_id" not in client.session


def told(response: HttpResponse) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


@contextmanager
def a_fleet(path: Path, answer: faults.Answer) -> Iterator[list[faults.Fault]]:
    """Answers one fault, and holds what it was asked."""
    asked: list[faults.Fault] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as lines:
            asked.append(faults.decode_fault(lines.readline()))
            connection.sendall(faults.encode(answer))

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()
