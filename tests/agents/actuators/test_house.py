from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from agents.actuators import cgroup, house, memory
from agents.actuators.cgroup import NoGroups
from agents.actuators.pressure import GIB, HostMemory
from agents.config import CannotRun, Config
from agents.wire.names import RuntimeKind
from tests.agents.actuators.trees import stand_in


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """100 GiB, and nothing delegated by systemd."""

    def nothing():
        raise NoGroups("nothing is delegated")

    monkeypatch.setattr(memory, "host_memory", lambda: HostMemory(100 * GIB, 50 * GIB))
    monkeypatch.setattr(cgroup, "delegated", nothing)


def settings(tmp_path, **config):
    given = Config(state_dir=tmp_path / "state", runtime=RuntimeKind.PROCESS, **config)
    return house.settings(given, gpus=4)


def test_without_a_word_of_it_four_jobs_share_four_fifths_of_the_host(tmp_path):
    assert settings(tmp_path).memory_bytes == 20 * GIB
    assert settings(tmp_path, job_memory_bytes=3 * GIB).memory_bytes == 3 * GIB


def test_what_systemd_gives_is_used_and_missed_in_silence(tmp_path, monkeypatch):
    assert settings(tmp_path).groups is None

    monkeypatch.setattr(cgroup, "delegated", lambda: stand_in(tmp_path / "unit"))

    assert settings(tmp_path).groups.root == tmp_path / "unit"


def test_groups_that_were_asked_for_and_cannot_be_had_stop_the_agent(tmp_path):
    with pytest.raises(CannotRun, match="no groups for jobs can be made in /nowhere"):
        settings(tmp_path, cgroup_root=Path("/nowhere"))


def test_no_cap_is_written_as_none(tmp_path):
    library = tmp_path / "libxcuda.so"

    assert settings(tmp_path, xcuda=library).xcuda.inflight_cap == 1
    assert settings(tmp_path, xcuda=library, inflight_cap=0).xcuda.inflight_cap is None


def test_jobs_are_the_agents_own_unless_a_user_is_named(tmp_path):
    me = pwd.getpwuid(os.geteuid())

    assert settings(tmp_path).job_uid == me.pw_uid
    assert settings(tmp_path).user is None
    with pytest.raises(CannotRun, match="no user no-such-user"):
        settings(tmp_path, job_user="no-such-user")
