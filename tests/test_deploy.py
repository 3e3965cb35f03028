"""The systemd unit of the agent, and the agent's image."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from agents.actuators.cgroup import AGENT_GROUP
from agents.config import DEFAULT_CREDENTIALS, DEFAULT_FILE, DEFAULT_STATE_DIR
from agents.mps.unit import ROOT as MPS_DIR
from agents.settings.flags import parser_of

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "muxflow-agent.service"
DOCKERFILE = (ROOT / "docker" / "agent.Dockerfile").read_text()
HARDENED = (
    "NoNewPrivileges",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectHostname",
    "RestrictSUIDSGID",
    "RestrictRealtime",
    "LockPersonality",
)
# Each would take a job's GPU, memory or files away, or shield it from the OOM killer.
HARMFUL = (
    "PrivateTmp",
    "PrivateDevices",
    "ProtectClock",
    "DynamicUser",
    "MemoryDenyWriteExecute",
    "OOMScoreAdjust",
)


class Unit(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        """Names keep their capitals."""
        return optionstr


@pytest.fixture(scope="module")
def unit():
    parser = Unit(interpolation=None, strict=True)
    parser.read_string(UNIT.read_text())
    return parser


def test_jobs_outlive_the_agent(unit):
    assert unit["Service"]["KillMode"] == "process"
    assert not [name for name in HARMFUL if name in unit["Service"]]


def test_it_is_hardened(unit):
    assert [unit["Service"][name] for name in HARDENED] == ["yes"] * len(HARDENED)
    assert unit["Service"]["ProtectSystem"] == "strict"


def test_it_may_write_where_the_agent_writes_and_nowhere_else(unit):
    service = unit["Service"]
    assert Path("/var/lib", service["StateDirectory"]) == DEFAULT_STATE_DIR
    assert Path("/etc", service["ConfigurationDirectory"]) == DEFAULT_CREDENTIALS.parent
    assert service["ReadWritePaths"] == f"-{MPS_DIR}"
    assert service["StateDirectoryMode"] == "0700"


def test_its_command_line_is_one_that_the_agent_takes(unit):
    _, *words = unit["Service"]["ExecStart"].split()
    assert parser_of("muxflow-agent", "").parse_args(words).config == DEFAULT_FILE


# What systemd says before version 254.
TOO_OLD = "Unknown key 'DelegateSubgroup' in section [Service], ignoring."


def test_jobs_get_groups_beside_that_of_the_agent(unit):
    assert unit["Service"]["DelegateSubgroup"] == AGENT_GROUP
    assert {"cpu", "memory"} <= set(unit["Service"]["Delegate"].split())


def test_it_always_comes_back(unit):
    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_systemd_finds_no_fault_in_it(tmp_path):
    """Where there is no systemd, the tests above are all that can be said."""
    if shutil.which("systemd-analyze") is None:
        return
    program = tmp_path / "muxflow-agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/muxflow-agent/bin/muxflow-agent", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True
    )
    told = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert [line for line in told if not line.endswith(TOO_OLD)] == []


def test_the_image_asks_the_agent_itself_how_it_is():
    (check,) = [line for line in DOCKERFILE.splitlines() if line.startswith("HEALTHCHECK")]
    assert check.endswith('CMD ["muxflow-agent", "status"]')
    assert f"MUXFLOW_AGENT_STATE_DIR={DEFAULT_STATE_DIR}/state" in DOCKERFILE
