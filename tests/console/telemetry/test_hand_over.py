"""Two real web processes behind one address, and a real fleet: one of them ends."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress

import pytest

from console.demo.processes import die_with_parent
from tests.benchmarks.telemetry.site import ROOT, Site, seeded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

NODES, GPUS = 3, 2
MOST_AGE_S = 2.0


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

    def ages(self) -> list[float]:
        """How old the last sample of each GPU is, as the process that answers knows it."""
        return [self._age(gpu_id) for gpu_id in range(1, NODES * GPUS + 1)]

    def _age(self, gpu_id: int) -> float:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.site.port}/api/v1/gpus/{gpu_id}/live/",
            headers=self.site.browser_headers,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return float(json.loads(answer.read())["age_s"])

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        self.listener.close()


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    yield made
    made.end()


def until_fresh(pair: Pair) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError, KeyError, TypeError):
            if max(pair.ages()) < 1.5:
                return
        time.sleep(0.1)
    raise AssertionError("the fleet did not come up")


def test_no_gpu_is_without_fresh_data_while_a_process_ends(pair, tmp_path):
    first = pair.web()
    pair.fleet(tmp_path)
    until_fresh(pair)
    pair.web()
    time.sleep(6)  # it takes up what the first knows
    first.terminate()
    time.sleep(0.2)  # from here on only the second accepts
    ages = []
    while len(ages) < 20 or first.poll() is None:
        ages.append(max(pair.ages()))
        time.sleep(0.1)
    assert max(ages) <= MOST_AGE_S
    assert first.returncode in (0, -15)
    until_fresh(pair)
