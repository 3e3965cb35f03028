"""However the launcher ends, nothing that it started is left; and it starts again."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.demo.running import (
    FIRST_START_S,
    ROOT,
    Demo,
    command,
    environment,
    eventually,
    is_up,
    launch,
    processes_of,
    share,
)

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(400),
]


def test_nobody_else_may_read_sessions_keys_or_logs(demo: Demo) -> None:
    kinds = ("*.sqlite3*", "*.json", "logs/*", "state/*/*")
    written = {path for kind in kinds for path in demo.folder.glob(kind)}
    assert demo.folder / "demo.sqlite3" in written
    assert [path for path in written if path.stat().st_mode & 0o077] == []


def test_nothing_survives_a_launcher_that_is_killed(demo: Demo) -> None:
    share(demo)
    eventually(lambda: runs(demo, "trainer"), 120, "a real process runs on node-17")
    demo.launcher.send_signal(signal.SIGKILL)
    demo.launcher.wait()
    eventually(lambda: not processes_of(demo.folder), 30, "all that it started is gone")


def test_it_starts_again_and_ctrl_c_leaves_nothing(demo: Demo) -> None:
    demo.stop()
    demo.launcher = launch(demo.folder, demo.port, "--no-story")
    eventually(lambda: is_up(demo), FIRST_START_S, "the demo answers on /healthz")
    assert f"Port {demo.port} is in use" in refusal(demo.folder / "elsewhere", demo.port)
    assert "already: stop it with Ctrl-C" in refusal(demo.folder, demo.port + 1)
    eventually(lambda: "Ctrl-C stops everything" in demo.log, 60, "the launcher says it is up")
    demo.stop()
    assert processes_of(demo.folder) == {}
    assert demo.launcher.returncode == 0
    assert "Traceback" not in demo.log


def runs(demo: Demo, program: str) -> bool:
    return any(program in told for told in processes_of(demo.folder).values())


def refusal(folder: Path, port: int) -> str:
    """What a launcher that cannot start says, in one line."""
    done = subprocess.run(
        command(port), cwd=ROOT, env=environment(folder), capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    return done.stderr
