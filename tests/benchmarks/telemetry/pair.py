"""Two web processes behind one address, and a fleet: what people see while one of them ends."""

from __future__ import annotations

import http.client
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from console.demo.processes import die_with_parent
from tests.benchmarks.telemetry.site import ROOT, Site, seeded

FRESH_S: Final = 1.5
UP_S: Final = 60.0
WATCHED_S: Final = 3.0

Ages = list[float | None]


class Pair:
    """A socket that both processes accept from, as a load balancer spreads what comes. `told` are
    settings of the console; looked at are `looks` GPUs, spread over the fleet."""

    def __init__(
        self, folder: Path, told: Mapping[str, str], nodes: int, gpus: int, looks: int
    ) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4_096)
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "MUXFLOW_VAR_DIR": str(folder),
            **told,
        }
        port = self.listener.getsockname()[1]
        self.site = Site(folder, port, variables, folder / "fleet.json", "", {})
        self.site.session = seeded(self.site, nodes, gpus, 0, 1)["session"]
        self._size, self._looked_at = (nodes, gpus), _spread(nodes * gpus, looks)
        self._started: list[subprocess.Popen[bytes]] = []

    def web(self) -> subprocess.Popen[bytes]:
        fd = str(self.listener.fileno())
        return self._start("console.serve", "--fd", fd, "--log-level", "warning")

    def fleet(self) -> subprocess.Popen[bytes]:
        return self._start(*self.site.agents(*self._size, seed=1))

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.site.folder / "processes.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=ROOT,
                env=self.site.variables,
                stderr=log,
                pass_fds=(self.listener.fileno(),),
                preexec_fn=die_with_parent,
            )
        self._started.append(process)
        return process

    def ages(self, of: subprocess.Popen[bytes] | None = None) -> Ages:
        """How old the last sample of each GPU is, in seconds, as the process that answers knows it;
        None where it knows of none. Raises OSError when nobody answers."""
        return [self._age(gpu_id, of) for gpu_id in self._looked_at]

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

    def seen(self, ending: subprocess.Popen[bytes] | None = None) -> list[Ages]:
        """What people see for a while, and at least until a process has ended."""
        told, until = [], time.monotonic() + WATCHED_S
        while time.monotonic() < until or (ending is not None and ending.poll() is None):
            told.append(self.ages())
            time.sleep(0.1)
        return told

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        self.listener.close()


@contextmanager
def pair(
    folder: Path, told: Mapping[str, str], nodes: int, gpus: int, looks: int
) -> Iterator[Pair]:
    made = Pair(folder, told, nodes, gpus, looks)
    try:
        yield made
    finally:
        made.end()


def holds(process: subprocess.Popen[bytes], ours: socket.socket) -> bool:
    """Whether the other end of a connection of ours is an open file of this process."""
    here, there = (f":{end[1]:04X}" for end in (ours.getsockname(), ours.getpeername()))
    ends = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(end[9] for end in ends if end[1].endswith(there) and end[2].endswith(here))
    return f"socket:[{inode}]" in {
        str(file.readlink()) for file in Path(f"/proc/{process.pid}/fd").iterdir()
    }


def until_fresh(ages: Callable[[], Ages]) -> None:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            if oldest_s(ages()) <= FRESH_S:
                return
        time.sleep(0.1)
    raise AssertionError("the fleet did not come up")


def oldest_s(ages: Ages) -> float:
    """Infinite where one has no value at all."""
    return max(math.inf if age_s is None else age_s for age_s in ages)


def _spread(gpus: int, looks: int) -> Sequence[int]:
    return [1 + at * gpus // looks for at in range(looks)]
