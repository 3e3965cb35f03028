"""A real agent in a network namespace of its own, and the cable between it and its console."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents.wire.names import EndReason
from tests import debian

# With iproute2 to be fetched.
pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def unshare():
    """What runs a command in a namespace of its own; its user may be nobody outside."""
    if not shutil.which("ip"):
        debian.install("iproute2")
    words = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    tried = subprocess.run([*words, "ip", "link", "set", "lo", "up"], capture_output=True)
    if tried.returncode != 0:
        why = tried.stderr.decode(errors="replace").strip()
        pytest.skip(f"namespaces: this machine lets nobody make one for a network: {why}")
    return words


def test_a_pulled_cable_is_told_once_ends_the_lease_and_loses_nothing(unshare, tmp_path):
    command = [*unshare, sys.executable, "-m", "tests.agents.network.apart", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["ended"] == [EndReason.LEASE_EXPIRED]
    assert told["in_order"]
    (line,) = told["warnings"]
    assert line.endswith("it did not answer a ping within 4 s")
