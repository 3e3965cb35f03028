from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agents import claim as claims
from agents.claim import claim, claim_all
from agents.collectors.card import Card
from agents.config import CannotRun


@pytest.fixture
def name():
    return f"muxflow-agent of the tests {os.getpid()}"


def test_a_second_agent_on_the_same_gpus_is_told_who_runs(name):
    with claim(name), pytest.raises(CannotRun, match=rf"another agent \(PID {os.getpid()}\)"):
        claim(name)


def test_agents_of_different_gpus_do_not_meet(name):
    first, second = (Card(0, f"GPU-{name} {index}", "H100", 80 << 30) for index in range(2))
    with claim_all([first]), claim_all([second]), pytest.raises(CannotRun):
        claim_all([second])


def test_gpus_without_a_uuid_are_claimed_together(name, monkeypatch):
    monkeypatch.setattr(claims, "NAME", name)
    masked = Card(0, "GPU-00000000", "H100", 80 << 30)
    with claim_all([masked, masked]), pytest.raises(CannotRun):
        claim_all([masked])


def test_an_agent_that_ended_is_no_obstacle(name):
    claim(name).close()
    claim(name).close()


def test_a_killed_agent_is_no_obstacle(name):
    code = f"import agents.claim as c, os; held = c.claim({name!r}); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    claim(name).close()


def test_no_other_user_can_keep_an_agent_from_its_work(name, monkeypatch, caplog):
    monkeypatch.setattr(claims, "_holder", lambda name: (7, 4_242))
    with claim(name), claim(name):
        assert "PID 7 of user 4242" in caplog.text
