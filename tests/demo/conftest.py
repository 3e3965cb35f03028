"""One running demo for all tests of this folder: the real launcher, the real processes."""

from __future__ import annotations

import http.cookiejar
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from console.demo.embedded import free_port
from console.demo.launcher import answers

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Demo:
    """The demo as a person (HTTP) and as an operator of the machine (pids, database file)."""

    folder: Path
    port: int
    launcher: subprocess.Popen[bytes]
    started_s: float
    cookies: http.cookiejar.CookieJar = field(default_factory=http.cookiejar.CookieJar)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> str:
        with self._opener.open(f"{self.url}{path}", timeout=10) as response:
            text: bytes = response.read()
        return text.decode()

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def post(self, path: str, **form: str) -> None:
        token = next((c.value for c in self.cookies if c.name == "csrftoken"), "") or ""
        body = urllib.parse.urlencode(form | {"csrfmiddlewaretoken": token}).encode()
        request = urllib.request.Request(f"{self.url}{path}", body, {"Referer": self.url})
        self._opener.open(request, timeout=10).close()

    def sign_in(self, role: str = "approver") -> None:
        self.get("/sign-in/")
        self.post("/demo/sign-in/", role=role)

    @property
    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def pids(self) -> dict[str, int]:
        try:
            found: dict[str, int] = json.loads((self.folder / "pids.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(f"file:{self.folder / 'demo.sqlite3'}?mode=ro", uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def one(self, query: str, *values: object) -> Any:
        return self.rows(query, *values)[0][0]


def eventually(met: Callable[[], object], within_s: float, what: str) -> None:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if met():
                return
        except (urllib.error.URLError, OSError, sqlite3.OperationalError):
            pass
        time.sleep(0.25)
    pytest.fail(f"not within {within_s:.0f} s: {what}")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder, port = tmp_path_factory.mktemp("demo"), free_port()
    own = ("REDIS_URL", "DATABASE_URL")
    env = {name: value for name, value in os.environ.items() if name not in own} | {
        "MUXFLOW_DEMO": "1",
        "MUXFLOW_VAR_DIR": str(folder),
        "MUXFLOW_DEMO_DIR": str(folder),
    }
    command = [sys.executable, "manage.py", "demo", "--port", str(port)]
    log = (folder / "launcher.log").open("wb")
    started = Demo(
        folder,
        port,
        subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log),
        time.monotonic(),
    )
    try:
        eventually(lambda: is_up(started), 110, "the demo answers on /healthz")
        yield started
    finally:
        started.launcher.send_signal(signal.SIGINT)
        try:
            started.launcher.wait(30)
        except subprocess.TimeoutExpired:
            started.launcher.kill()
        log.close()


def is_up(demo: Demo) -> bool:
    if demo.launcher.poll() is not None:
        pytest.fail(f"the launcher ended:\n{(demo.folder / 'launcher.log').read_text()}")
    return answers(f"{demo.url}/healthz")
