"""The demo as a person (HTTP) and as an operator of the machine (pids, database file) see it."""

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
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from console.demo.embedded import free_port
from console.demo.launcher import answers
from console.demo.processes import die_with_parent
from tests.process_states import state_of

ROOT = Path(__file__).resolve().parents[2]
# What takes seconds may take some more of them on a machine that is busy with other tests.
FIRST_START_S, WHOLE_S, STOP_S, ANSWER_S = 180.0, 90.0, 60.0, 30.0
# The demo brings its own; those of a test run are not meant for it.
NOT_INHERITED = ("REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")


@dataclass
class Demo:
    """One running launcher and all that it started."""

    folder: Path
    port: int
    launcher: subprocess.Popen[bytes]
    cookies: http.cookiejar.CookieJar = field(default_factory=http.cookiejar.CookieJar)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> str:
        with self._opener.open(f"{self.url}{path}", timeout=ANSWER_S) as response:
            text: bytes = response.read()
        return text.decode()

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def post(self, path: str, **form: str) -> None:
        body = urllib.parse.urlencode(form | {"csrfmiddlewaretoken": self._csrf_token}).encode()
        headers = {"Referer": self.url}
        request = urllib.request.Request(f"{self.url}{path}", body, headers)
        self._opener.open(request, timeout=ANSWER_S).close()

    def sign_in(self, role: str) -> None:
        self.get("/sign-in/")
        self.post("/demo/sign-in/", role=role, next="/healthz")  # no page yet, so no first view

    @property
    def _csrf_token(self) -> str:
        return next((c.value or "" for c in self.cookies if c.name == "csrftoken"), "")

    @property
    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def fleet(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json("/api/v1/fleet/")
        return found

    def pids(self) -> dict[str, int]:
        try:
            found: dict[str, int] = json.loads((self.folder / "pids.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        path = f"file:{self.folder / 'demo.sqlite3'}?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    def one(self, query: str, *values: object) -> Any:
        return self.rows(query, *values)[0][0]

    def placements(self, state: str) -> int:
        count: int = self.one("SELECT count(*) FROM scheduling_placement WHERE state = ?", state)
        return count

    @property
    def log(self) -> str:
        return (self.folder / "launcher.log").read_text(errors="replace")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Does nothing when it has ended already."""
        self.launcher.send_signal(number)
        try:
            self.launcher.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait()
            raise


@contextmanager
def running_demo(folder: Path, *, story: bool) -> Iterator[Demo]:
    """A demo on a free port that is up, with every node connected."""
    port = free_port()
    demo = Demo(folder, port, launch(folder, port, *([] if story else ["--no-story"])))
    try:
        eventually(lambda: is_up(demo), FIRST_START_S, "the demo answers on /healthz")
        demo.sign_in("approver")
        eventually(lambda: is_whole(demo), WHOLE_S, "every node sends live data")
        yield demo
    finally:
        demo.stop()


def launch(folder: Path, port: int, *arguments: str) -> subprocess.Popen[bytes]:
    """It writes to launcher.log in its folder."""
    with (folder / "launcher.log").open("wb") as log:
        return subprocess.Popen(
            command(port, *arguments),
            cwd=ROOT,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,
        )


def command(port: int, *arguments: str) -> list[str]:
    return [sys.executable, "manage.py", "demo", "--port", str(port), *arguments]


def environment(folder: Path) -> dict[str, str]:
    """As `make demo` tells the launcher, with a folder of our own."""
    told = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    own = {"MUXFLOW_DEMO": "1", "MUXFLOW_VAR_DIR": str(folder), "MUXFLOW_DEMO_DIR": str(folder)}
    return told | own


def is_up(demo: Demo) -> bool:
    if demo.launcher.poll() is not None:
        pytest.fail(f"the launcher ended:\n{demo.log}")
    return answers(f"{demo.url}/healthz")


def is_whole(demo: Demo) -> bool:
    fleet = demo.fleet()
    return bool(fleet["live"] == fleet["gpus"] > 0)


def share(demo: Demo) -> None:
    """Everywhere: node 17 may only after it has watched its online services for ten seconds."""

    def is_everywhere() -> bool:
        left_out = "sharing_mode = 'observe' AND NOT holdback AND retired_at IS NULL"
        if demo.one(f"SELECT count(*) FROM inventory_gpu WHERE {left_out}"):  # noqa: S608
            demo.post("/sharing/start/", note="jobs to look at")
            return False
        return True

    eventually(is_everywhere, 120, "every GPU that is not held back shares")


def processes_of(folder: Path) -> dict[int, str]:
    """Process id and command of all that was started with this folder, however far from us."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command_line = (process / "cmdline").read_bytes()
            told = command_line + (process / "environ").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if str(folder).encode() in told:
            found[int(process.name)] = command_line.replace(b"\0", b" ").decode(errors="replace")
    return found


def is_alive(pid: int) -> bool:
    return state_of(pid) not in (None, "Z")


def eventually(met: Callable[[], object], within_s: float, what: str) -> None:
    """Ask until the answer is true; no answer at all, as during a restart, counts as not yet."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if met():
                return
        except (urllib.error.URLError, OSError, sqlite3.OperationalError):
            pass
        time.sleep(0.2)
    pytest.fail(f"not within {within_s:.0f} s: {what}")
