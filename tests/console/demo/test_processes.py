from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.demo.processes import Child
from tests.process_states import state_of

pytestmark = pytest.mark.timeout(20)

REPORT = "from agents.wire.ready import notify_ready; notify_ready(); import time; time.sleep(60)"
PARENT = """
import sys, time
from pathlib import Path
from console.demo.processes import Child
child = Child("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"], {}, Path("."))
child.folder = Path(sys.argv[1])
child.start()
print(child.process.pid, flush=True)
time.sleep(60)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def eventually(met: Callable[[], object], within_s: float = 10.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if met():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.stop_s = 0.1
        child.wait_gone()


def test_a_child_is_ready_when_it_says_so(tmp_path: Path, children: list[Child]) -> None:
    child = Child("reporter", python(REPORT), {}, tmp_path)
    children.append(child)
    child.start()
    assert not child.ready
    assert eventually(child.is_ready)


def test_a_child_that_died_starts_again_after_a_pause(
    tmp_path: Path, children: list[Child]
) -> None:
    child = Child("crasher", python("raise SystemExit(3)"), {}, tmp_path, reports=False)
    children.append(child)
    child.start()
    first = child.process
    assert first is not None
    first.wait()
    assert "ended (3)" in child.watch(now=100.0)
    child.watch(now=100.4)
    assert child.process is first
    child.watch(now=100.6)
    assert child.process is not first


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not Path(f"/proc/{pid}/cmdline").exists() or is_zombie(pid))


def is_zombie(pid: int) -> bool:
    return state_of(pid) in (None, "Z")
