"""What a recovery does to the online services of a GPU."""

from __future__ import annotations

import os

import pytest

from agents.mps.daemons import GpuHands
from agents.mps.hooks import RestartHooks
from tests.agents.mps.conftest import until


class Node:
    """A node with hooks for some of the services on its one GPU."""

    def __init__(self, hooks, services):
        self.told, self.suspect = [], []
        self.hooks = RestartHooks({name: ("sh", "-c", text) for name, text in hooks.items()})
        self.hands = GpuHands(
            None, lambda: services, self.hooks, self.told.append, self.suspect.append
        )


def test_every_service_of_the_gpu_is_restarted_by_its_hook(tmp_path):
    node = Node({name: f"echo > {tmp_path}/{name}" for name in ("chat", "rank")}, ["chat", "rank"])
    assert node.hands.restart_online() == "the hook of chat, rank runs"
    until(lambda: not node.hands.is_restarting)
    assert {path.name for path in tmp_path.iterdir()} == {"chat", "rank"}
    assert node.told == []


@pytest.mark.parametrize(
    ("hooks", "services", "done", "told"),
    [
        (
            {"chat": "true"},
            ["chat", "rank"],
            "the hook of chat runs, and",
            "restart rank: this node",
        ),
        ({}, ["chat"], "no hook runs, and", "restart chat: this node has no hook"),
        ({"chat": "true"}, [], "no hook runs, and", "no service is known"),
    ],
)
def test_a_person_is_told_of_what_no_hook_restarts(hooks, services, done, told):
    node = Node(hooks, services)
    assert node.hands.restart_online() == f"{done} a person is told"
    (sentence,) = node.told
    assert told in sentence
    assert node.hands.has_hook is (hooks != {} and services != [])


def test_a_hook_at_work_is_not_started_twice(tmp_path):
    node = Node({"chat": f"echo >> {tmp_path}/runs; read -r _ < {tmp_path}/end"}, ["chat"])
    (tmp_path / "runs").touch()
    os.mkfifo(tmp_path / "end")
    node.hands.restart_online()
    until(lambda: (tmp_path / "runs").read_text())
    assert node.hands.is_restarting
    node.hands.restart_online()
    (tmp_path / "end").write_text("now\n")
    until(lambda: not node.hands.is_restarting)
    assert (tmp_path / "runs").read_text() == "\n"


@pytest.mark.parametrize("command", [("false",), ("/nonexistent",), ("sleep", "60")])
def test_a_hook_that_fails_is_logged_and_holds_nobody_up(command, caplog):
    hooks = RestartHooks({"chat": command}, within_s=0.2)
    assert hooks.run("chat")
    until(lambda: not hooks.is_running("chat"))
    assert "the hook that restarts chat" in caplog.text


def test_a_hook_that_outlives_its_agent_is_waited_for_and_not_run_beside_itself(tmp_path):
    command = (
        "sh",
        "-c",
        f"echo >> {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done",
    )
    first = RestartHooks({"chat": command}, folder=tmp_path)
    first.run("chat")
    until(lambda: (tmp_path / "hooks.json").exists() and (tmp_path / "runs").exists())

    heir = RestartHooks({"chat": command}, folder=tmp_path)
    assert heir.is_running("chat")
    assert heir.run("chat")

    (tmp_path / "go").touch()
    until(lambda: not heir.is_running("chat"))
    until(lambda: not first.is_running("chat"))
    assert (tmp_path / "runs").read_text() == "\n"
    assert not RestartHooks({"chat": command}, folder=tmp_path).is_running("chat")


def test_one_that_an_earlier_agent_left_gets_no_more_than_its_time(tmp_path):
    first = RestartHooks({"chat": ("sleep", "30")}, folder=tmp_path)
    first.run("chat")
    until((tmp_path / "hooks.json").exists)
    heir = RestartHooks({"chat": ("true",)}, within_s=0.0, folder=tmp_path)
    assert not heir.is_running("chat")
    until(lambda: not first.is_running("chat"))


@pytest.mark.parametrize("text", ["", "[1]", '{"chat": {"pid": "x"}}'])
def test_a_note_of_hooks_that_makes_no_sense_is_forgotten(tmp_path, text):
    (tmp_path / "hooks.json").write_text(text)
    assert not RestartHooks({"chat": ("true",)}, folder=tmp_path).is_running("chat")
