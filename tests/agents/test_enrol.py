from __future__ import annotations

import json
import stat
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest

from agents import enrol
from agents.wire import credentials as credentials_file
from agents.wire.cluster import ClusterGpu
from agents.wire.credentials import Credentials

GPUS = (ClusterGpu("GPU-0", "A10 24 GB", 24 << 30),)
GIVEN = Credentials("node-01", "17", "secret", "00ff")


class Desk(HTTPServer):
    """A console that answers one way to everybody, and remembers the last question."""

    code = 201
    answer: bytes = json.dumps(msgspec.to_builtins(GIVEN)).encode()
    asked: tuple[str, dict[str, Any]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Clerk(BaseHTTPRequestHandler):
    server: Desk

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.server.asked = (self.path, json.loads(self.rfile.read(length)))
        self.send_response(self.server.code)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_):
        """Nothing on the terminal."""


@pytest.fixture
def desk():
    server = Desk(("127.0.0.1", 0), Clerk)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_becomes_credentials(desk):
    assert enrol.enrol(f"{desk.url}/", "once", "node-01", GPUS) == GIVEN
    path, asked = desk.asked
    assert path == "/api/v1/enrol/"
    assert asked == {
        "token": "once",
        "node": "node-01",
        "gpus": [{"index": 0, "uuid": "GPU-0", "model": "A10 24 GB", "memory_bytes": 24 << 30}],
    }


def test_a_refusal_is_told_in_the_consoles_own_words(desk):
    desk.code, desk.answer = 403, b'{"detail": "This enrolment token is unknown."}'
    with pytest.raises(enrol.NotEnrolled, match="This enrolment token is unknown"):
        enrol.enrol(desk.url, "twice", "node-01", GPUS)


def test_a_refusal_without_words_is_told_by_its_code(desk):
    desk.code, desk.answer = 500, b"<html>oh</html>"
    with pytest.raises(enrol.NotEnrolled, match="500"):
        enrol.enrol(desk.url, "once", "node-01", GPUS)


def test_something_that_is_no_console_is_said_to_be_none(desk):
    desk.answer = b"<html>hello</html>"
    with pytest.raises(enrol.NotEnrolled, match="not as a MuxFlow console"):
        enrol.enrol(desk.url, "once", "node-01", GPUS)


def test_a_console_that_is_away_is_said_to_be():
    with pytest.raises(enrol.NotEnrolled, match="cannot reach"):
        enrol.enrol("http://127.0.0.1:9", "once", "node-01", GPUS)


def test_kept_credentials_are_for_the_owner_only_and_replace_older_ones(tmp_path):
    path = tmp_path / "etc/credentials.json"
    other = Credentials("node-02", "18", "other", "11")
    for each in (Credentials("node-01", "17", "old", "22"), other, GIVEN):
        enrol.keep(path, each)
    assert credentials_file.decode(path.read_bytes()) == (other, GIVEN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
