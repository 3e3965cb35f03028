"""Tools that a test needs and this machine may lack, from Debian's own packages."""

from __future__ import annotations

import os
import shutil
import subprocess


def install(*packages: str) -> None:
    """Fetches them where a test run may do so: as root in CI, on Debian. Whoever asks looks for
    the tool afterwards."""
    if os.geteuid() != 0 or os.environ.get("CI") != "true" or not shutil.which("apt-get"):
        return
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(
            ["apt-get", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            timeout=240,
            check=False,
        )
