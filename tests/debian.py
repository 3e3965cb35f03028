"""Tools that a test needs and this machine may lack, from Debian's own packages."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

# Test processes that miss something at the same time take turns: apt-get does not.
TURN = Path("/var/lib/apt/muxflow-tests.lock")


def install(*packages: str) -> None:
    """Fetches them where a test run may do so: as root in CI, on Debian. Whoever asks looks for
    the tool afterwards."""
    if os.geteuid() != 0 or os.environ.get("CI") != "true" or not shutil.which("apt-get"):
        return
    with TURN.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.run(
                ["apt-get", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                timeout=240,
                check=False,
            )
