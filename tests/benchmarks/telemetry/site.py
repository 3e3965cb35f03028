"""A console as it runs in production, on this machine: PostgreSQL, Redis, one web process."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.demo.embedded import free_port
from console.demo.processes import die_with_parent
from tests.services import postgres_server, redis_server, scratch_folder

ROOT = Path(__file__).parents[3]
READY_S = 30.0
# Of the metrics; only this machine reaches them.
TOKEN = secrets.token_urlsafe()


@dataclass
class Site:
    """`pids` of what serves: gateway, redis, postgres."""

    folder: Path
    port: int
    variables: dict[str, str]
    credentials: Path
    session: str
    pids: dict[str, int]
    # Makes the whole fleet lose its connections at once; whoever starts the fleet says how.
    storm: Callable[[], object] = lambda: None

    @property
    def faults(self) -> Path:
        return self.folder / "faults.sock"

    @property
    def agents_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/agent/"

    @property
    def browsers_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/live/"

    @property
    def browser_headers(self) -> dict[str, str]:
        return {
            "Cookie": f"sessionid={self.session}",
            "Origin": f"http://127.0.0.1:{self.port}",
        }

    def agents(self, nodes: int, gpus: int, seed: int) -> list[str]:
        """The module and what it is told for a fake fleet that connects here."""
        return [
            *("agents", "--simulate", f"nodes={nodes},gpus={gpus}", "--seed", str(seed)),
            *("--console", self.agents_url, "--credentials", str(self.credentials)),
            *("--faults", str(self.faults), "--state-dir", str(self.folder / "fleet")),
        ]

    def get(self, path: str, timeout_s: float = 10.0) -> float:
        """How long a page took, in seconds. Raises OSError."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers=self.browser_headers
        )
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            answer.read()
        return time.monotonic() - began


@contextmanager
def site(nodes: int, gpus: int, probes: int, seed: int) -> Iterator[Site]:
    with scratch_folder() as folder, postgres_server() as database, redis_server() as live:
        folder.chmod(0o755)
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": database,
            "REDIS_URL": live,
            "MUXFLOW_VAR_DIR": str(folder),
            "MUXFLOW_METRICS_TOKEN": TOKEN,
        }
        made = Site(folder, free_port(), variables, folder / "fleet.json", "", {})
        made.session = seeded(made, nodes, gpus, probes, seed)["session"]
        with web(made) as process:
            made.pids = {"gateway": process.pid, **_servers(live, database)}
            yield made


@contextmanager
def web(place: Site) -> Iterator[subprocess.Popen[bytes]]:
    """The web process as the product starts it."""
    command = [sys.executable, "-m", "console.serve", "--port", str(place.port)]
    command += ["--log-level", "warning"]
    with (place.folder / "web.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=place.variables, stderr=log, preexec_fn=die_with_parent
        )
    try:
        _wait(place, process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(READY_S)


def _wait(place: Site, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            place.get("/healthz")
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"The web process did not come up: {place.folder / 'web.log'}")


def seeded(place: Site, nodes: int, gpus: int, probes: int, seed: int) -> dict[str, Any]:
    sizes = {"nodes": nodes, "gpus": gpus, "probes": probes, "seed": seed}
    words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.benchmarks.telemetry.seed", *words),
            *("--credentials", str(place.credentials)),
        ],
        cwd=ROOT,
        env=place.variables,
        check=True,
        stdout=subprocess.PIPE,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _servers(live: str, database: str) -> dict[str, int]:
    """The pids of the servers, by the ports that they listen on."""
    ports = {"redis": _port(live), "postgres": _port(database)}
    return {name: pid for name, port in ports.items() if (pid := _listener(port)) is not None}


def _port(url: str) -> int:
    return int(url.rsplit(":", 1)[1].split("/")[0])


def _listener(port: int) -> int | None:
    """The pid that listens on a local port."""
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    }
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in inodes:
            return int(link.parts[2])
    return None
