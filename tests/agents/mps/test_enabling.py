from __future__ import annotations

import pytest

from agents.mps import enabling
from agents.mps.enabling import VERIFY_S, Readiness, Stage
from agents.mps.health import ServerState
from agents.mps.shareable import OnlineProcess
from tests.agents.mps.cast import ONLINE, sharing

STRANGER = OnlineProcess(4712, 1000, "vllm")
NO_DAEMON = {"state": ServerState.NO_DAEMON, "server_uid": None, "client_pids": None}


@pytest.mark.parametrize(
    ("card", "mps", "settled_s", "stage"),
    [
        ({"mig": True}, NO_DAEMON, 0.0, Stage.FORBIDDEN),
        ({}, NO_DAEMON, 0.0, Stage.WITHOUT_DAEMON),
        ({}, {"client_pids": frozenset()}, 0.0, Stage.RESTARTS_DUE),
        ({"online": (ONLINE, STRANGER)}, {}, 99.0, Stage.RESTARTS_DUE),
        ({}, {}, VERIFY_S - 0.1, Stage.VERIFYING),
        ({}, {"state": ServerState.INITIALIZING}, 99.0, Stage.VERIFYING),
        ({}, {"state": ServerState.FAULT}, 99.0, Stage.VERIFYING),
        ({}, {}, VERIFY_S, Stage.ENABLED),
        ({"online": ()}, {"state": ServerState.NO_SERVER}, 0.0, Stage.ENABLED),
    ],
)
def test_the_stage_is_the_first_step_that_is_not_done(card, mps, settled_s, stage):
    ready = Readiness(sharing(card, mps), settled_s)
    assert enabling.stage(ready) is stage
    assert enabling.admits(ready) is (stage is Stage.ENABLED)


def test_each_instance_to_restart_is_named():
    ready = Readiness(sharing({"online": (ONLINE, STRANGER)}))
    step = enabling.steps(ready)[2]
    assert step.restart == (STRANGER,)
    assert not step.done


def test_no_step_is_done_before_the_one_before_it():
    done = [step.done for step in enabling.steps(Readiness(sharing({"mig": True}), 99.0))]
    assert done == [False] * len(enabling.STEPS)


def test_a_daemon_does_not_quit_under_its_clients():
    quits = enabling.why_not_quit
    here = sharing(mps={"client_pids": frozenset({4711, 5})})
    assert "offline jobs still run" in quits(here, frozenset({5}), approved=True)
    assert "1 online clients would die" in quits(sharing(), frozenset(), approved=False)
    assert quits(sharing(), frozenset(), approved=True) == ""
    assert quits(sharing(mps={"client_pids": frozenset()}), frozenset(), approved=False) == ""


def test_a_daemon_that_does_not_say_who_its_clients_are_quits_only_with_a_persons_word():
    quits = enabling.why_not_quit
    silent = sharing(mps={"state": ServerState.SILENT, "client_pids": None})
    assert "nobody can say who its clients are" in quits(silent, frozenset(), approved=False)
    assert quits(silent, frozenset(), approved=True) == ""
    assert quits(sharing(mps=NO_DAEMON), frozenset(), approved=False) == ""
