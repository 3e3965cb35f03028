"""`make gpu-xcuda` and `gpu-signals` are prepared for machines that these tests do not have."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from agents.wire.names import SIGNALS
from tests.agents.xcuda.running import BUILD, ROOT

pytestmark = pytest.mark.timeout(60)


def try_steps(*options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.gpu", "--built", str(BUILD), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_its_steps_pass_on_the_stand_in_driver(library):
    tried = try_steps("--stub", "--steps", "habits", "resolve", "quota", "freeze")
    assert {name: it["result"] for name, it in tried["steps"].items()} == dict.fromkeys(
        ("build", "device", "mps", "habits", "resolve", "quota", "freeze"), "ok"
    )
    assert tried["steps"]["resolve"]["requests"] > 1000


def test_what_a_node_knows_of_its_gpu_is_read_on_the_stand_ins(library):
    tried = try_steps("--stub", "--signals")
    missing = [name for name, it in tried["steps"].items() if it["result"] == "missing"]
    assert (tried["failed"], missing) == (0, ["dcgm"])
    signals = tried["steps"]["signals"]["available"]
    assert {str(signal) for signal in SIGNALS} - signals.keys() == {"online_p99", "online_qps"}


def test_what_a_machine_lacks_is_missing_and_no_failure(library):
    tried = try_steps("--stub", "--steps", "runtime", "terminate", "torch async")
    assert (tried["missing"], tried["failed"]) == (3, 0)
