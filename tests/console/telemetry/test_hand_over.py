"""Two real web processes behind one address, and a real fleet: one of them ends."""

from __future__ import annotations

import http.client
import json
import math
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from console.demo.processes import die_with_parent
from console.telemetry.latest import STALE_S
from tests.benchmarks.telemetry.site import ROOT, Site, seeded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

NODES, GPUS = 3, 2
# A value is a second old at most before the next one comes; a process that ends adds as much. On a
# machine that is busy with other tests it is older while nothing happens, too.
PERIOD_S = ADDED_S = 1.0
FRESH_S = 1.5
UP_S = 60.0
WATCHED_S = 3.0


class Pair:
    """A socket that both processes accept from, as a load balancer spreads what comes."""

    def __init__(self, folder) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": f"sqlite:///{folder / 'console.sqlite3'}",
            "MUXFLOW_VAR_DIR": str(folder),
            "MUXFLOW_REDIS_PREFIX": f"hand-over-{secrets.token_hex(4)}",
        }
        port = self.listener.getsockname()[1]
        self.site = Site(folder, port, variables, folder / "fleet.json", "", {})
        self.site.session = seeded(self.site, NODES, GPUS, 0, 1)["session"]
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            env=self.site.variables,
            pass_fds=(self.listener.fileno(),),
            preexec_fn=die_with_parent,
        )
        self._started.append(process)
        return process

    def web(self) -> subprocess.Popen[bytes]:
        fd = str(self.listener.fileno())
        return self.start("console.serve", "--fd", fd, "--log-level", "warning")

    def fleet(self, folder) -> subprocess.Popen[bytes]:
        size = f"nodes={NODES},gpus={GPUS}"
        return self.start(
            *("agents", "--simulate", size, "--seed", "1", "--console", self.site.agents_url),
            *("--credentials", str(self.site.credentials), "--state-dir", str(folder / "fleet")),
        )

    def ages(self, of: subprocess.Popen[bytes] | None = None) -> list[float | None]:
        """How old the last sample of each GPU is, in seconds, as the process that answers knows it;
        None where it knows of none. Raises OSError when nobody answers."""
        return [self._age(gpu_id, of) for gpu_id in range(1, NODES * GPUS + 1)]

    def _age(self, gpu_id: int, of: subprocess.Popen[bytes] | None) -> float | None:
        """Which one accepts is chance: one that is asked for is asked until it does."""
        deadline = time.monotonic() + UP_S
        while time.monotonic() < deadline:
            gpu, is_by = self._gpu(gpu_id, of)
            if is_by:
                return gpu.get("age_s")
        raise AssertionError("this process answers nobody")

    def _gpu(self, gpu_id: int, of: subprocess.Popen[bytes] | None) -> tuple[dict[str, Any], bool]:
        """What is known of it now, and whether `of` said so."""
        port, headers = self.site.port, self.site.browser_headers
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", f"/api/v1/gpus/{gpu_id}/live/", headers=headers)
            answer = connection.getresponse()
            is_by = of is None or holds(of, connection.sock)
            return json.loads(answer.read()), is_by

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        self.listener.close()


def holds(process: subprocess.Popen[bytes], ours: socket.socket) -> bool:
    """Whether the other end of a connection of ours is an open file of this process."""
    here, there = (f":{end[1]:04X}" for end in (ours.getsockname(), ours.getpeername()))
    ends = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(end[9] for end in ends if end[1].endswith(there) and end[2].endswith(here))
    return f"socket:[{inode}]" in {
        str(file.readlink()) for file in Path(f"/proc/{process.pid}/fd").iterdir()
    }


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    yield made
    made.end()


def until_fresh(ages: Callable[[], list[float | None]]) -> None:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            if are_fresh(ages(), FRESH_S):
                return
        time.sleep(0.1)
    raise AssertionError("the fleet did not come up")


def seen(pair: Pair, ending: subprocess.Popen[bytes] | None = None) -> list[list[float | None]]:
    """What people see for a while, and at least until a process has ended."""
    told, until = [], time.monotonic() + WATCHED_S
    while time.monotonic() < until or (ending is not None and ending.poll() is None):
        told.append(pair.ages())
        time.sleep(0.1)
    return told


def are_fresh(ages: list[float | None], most_s: float) -> bool:
    return oldest_s(ages) <= most_s


def oldest_s(ages: list[float | None]) -> float:
    """Infinite where one has no value at all."""
    return max(math.inf if age_s is None else age_s for age_s in ages)


def test_no_gpu_is_without_fresh_data_while_a_process_ends(pair, tmp_path):
    first = pair.web()
    pair.fleet(tmp_path)
    until_fresh(pair.ages)
    second = pair.web()
    until_fresh(lambda: pair.ages(second))
    usual_s = max(oldest_s(ages) for ages in seen(pair))
    assert usual_s <= STALE_S, "nothing is fresh before anything ends"
    first.terminate()
    most_s = max(PERIOD_S, usual_s) + ADDED_S
    assert [ages for ages in seen(pair, first) if not are_fresh(ages, most_s)] == []
    assert first.returncode in (0, -15)
    until_fresh(lambda: pair.ages(second))
