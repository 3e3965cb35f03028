from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client
from msgspec.structs import replace

from agents.wire import faults, lab
from agents.wire.ids import uuid7
from console.accounts.models import User
from console.demo import people
from tests.console.demo import urls

pytestmark = [pytest.mark.django_db, pytest.mark.urls(urls.__name__)]


@pytest.fixture(autouse=True)
def cast(settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings.MUXFLOW_DEMO = True
    people.create("a long password")
    monkeypatch.setenv("MUXFLOW_DEMO_FAULTS", str(tmp_path / "faults.sock"))
    monkeypatch.setenv("MUXFLOW_DEMO_LAB", str(tmp_path / "lab.sock"))
    monkeypatch.delenv("MUXFLOW_DEMO_WITHOUT_XCUDA", raising=False)


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


@pytest.mark.parametrize("kind", ["sigterm_with", "sigterm_without"])
def test_a_sigterm_goes_to_the_job_meant_and_leads_to_what_comes_of_it(
    approver: Client, tmp_path: Path, kind: str
) -> None:
    said = lab.Said(detail="SIGTERM sent to trainer-1.")
    with a_machine(tmp_path / "lab.sock", said) as asked:
        response = approver.post("/demo/fault/", {"kind": kind, "next": "/map/"})
    assert asked == [lab.Terminate(under_xcuda=kind == "sigterm_with")]
    assert response.headers["Location"] == "/demo/sigterm/"
    assert told(response) == "SIGTERM sent to trainer-1."


def test_a_sigterm_while_nothing_runs_says_so_where_one_is(
    approver: Client, tmp_path: Path
) -> None:
    with a_machine(tmp_path / "lab.sock", lab.Said(error="No job runs on this node now.")):
        response = approver.post("/demo/fault/", {"kind": "sigterm_with", "next": "/map/"})
    assert response.headers["Location"] == "/map/"
    assert "No job runs" in told(response)


@pytest.mark.parametrize("kind", ["sigterm_with", "sigterm_without"])
def test_without_xcuda_a_sigterm_is_refused_with_what_to_install(
    approver: Client, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("MUXFLOW_DEMO_WITHOUT_XCUDA", "There is no C compiler: apt install gcc.")
    assert "apt install gcc" in told(approver.post("/demo/fault/", {"kind": kind}))
    page = approver.get("/demo/sigterm/").content.decode()
    assert page.count("apt install gcc") >= 1
    assert page.count("disabled title=") == 2


def test_the_page_tells_the_last_of_each_kind_with_figures(
    approver: Client, tmp_path: Path
) -> None:
    at = datetime.now(UTC).timestamp()
    gentle = lab.Press(True, at, "GPU-a", "chat", "careful-1", str(uuid7()), 71, 4)
    gentle = replace(gentle, watching=False, gone_after_s=0.25, ending="released", answered=60)
    hard = lab.Press(False, at, "GPU-b", "search", "bare-1", str(uuid7()), 72, 9)
    hard = replace(hard, gone_after_s=0.1, ending="unsafe", lost=37, back_after_s=6.5)
    with a_machine(tmp_path / "lab.sock", lab.Said(presses=(gentle, hard))):
        page = approver.get("/demo/sigterm/").content.decode()
    assert "chat did not notice: 60 requests answered, 0 lost." in page
    assert "37 requests lost; it answered again after 6.5 s" in page
    assert page.index("Online untouched") < page.index("Online was hit, and is back")


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
    with answering(path, faults.encode(answer)) as lines:
        asked: list[faults.Fault] = []
        yield asked
    asked += map(faults.decode_fault, lines)


@contextmanager
def a_machine(path: Path, said: lab.Said) -> Iterator[list[lab.Question]]:
    """Answers one question, and holds what it was asked."""
    with answering(path, lab.encode(said)) as lines:
        asked: list[lab.Question] = []
        yield asked
    asked += map(lab.decode_question, lines)


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    lines: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as incoming:
            lines.append(incoming.readline())
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield lines
        thread.join()
