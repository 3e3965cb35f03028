"""Flags before environment before file before default, and each fault in one sentence."""

from __future__ import annotations

import pytest

from agents.config import Config
from agents.settings.effective import Told, resolve
from agents.settings.table import SETTINGS

CONSOLE = "ws://console/ws/agent/"
REAL = {"node": "n", "gpus": "nvml", "runtime": "process", "console": CONSOLE}
FILE = "agent.toml"


def resolved(flags=(), environment=(), file=()):
    return resolve(Told(dict(flags), dict(environment), REAL | dict(file), FILE))


def test_a_flag_goes_before_a_variable_before_the_file_before_the_default():
    level, variable = ("log_level", "MUXFLOW_AGENT_LOG_LEVEL")
    steps = [
        (resolved(), "INFO", "default"),
        (resolved(file={level: "DEBUG"}), "DEBUG", FILE),
        (resolved(environment={variable: "ERROR"}, file={level: "DEBUG"}), "ERROR", variable),
        (
            resolved({level: "WARNING"}, {variable: "ERROR"}, {level: "DEBUG"}),
            "WARNING",
            "--log-level",
        ),
    ]
    for effective, value, origin in steps:
        assert (effective.config.log_level, effective.origins[level]) == (value, origin)
        assert effective.faults == ()


def test_an_empty_variable_is_one_that_was_not_given():
    effective = resolved(environment={"MUXFLOW_AGENT_NODE": ""})
    assert effective.config.node == "n"


@pytest.mark.parametrize("ending", ["PORT", "SERVICE_HOST", "PORT_9464_TCP_ADDR"])
def test_what_kubernetes_says_of_a_service_is_no_setting(ending):
    assert resolved(environment={f"MUXFLOW_AGENT_{ending}": "tcp://10.0.0.1:9464"}).faults == ()


def test_hooks_are_written_alike_everywhere():
    hooks = {"chat": ("systemctl", "restart", "my chat")}
    text = "chat=systemctl restart 'my chat'"
    written = [
        resolved(flags={"restart_hooks": text}),
        resolved(environment={"MUXFLOW_AGENT_RESTART_HOOKS": text}),
        resolved(file={"restart_hooks": {"chat": "systemctl restart 'my chat'"}}),
        resolved(file={"restart_hooks": {"chat": ["systemctl", "restart", "my chat"]}}),
    ]
    assert [one.config.restart_hooks for one in written] == [hooks] * 4


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"file": {"consle": "x"}}, f"{FILE}: consle is no setting: did you mean console?"),
        ({"file": {"zzz": 1}}, f"{FILE}: zzz is no setting: docs/agent.md lists them"),
        ({"file": {"lifeline_fd": 3}}, f"{FILE}: lifeline_fd is no setting"),
        ({"file": {"metrics_port": "9100"}}, f"{FILE}: metrics_port = '9100' is not a port"),
        ({"file": {"metrics_port": 0}}, f"{FILE}: metrics_port = 0 is not a port from 1 to 65535"),
        ({"file": {"metrics_port": 1.5}}, f"{FILE}: metrics_port = 1.5 is not a port"),
        ({"file": {"node": 7}}, f"{FILE}: node = 7 is not the name of a node"),
        ({"file": {"gpus": "amd"}}, f"{FILE}: gpus = 'amd' is not one of simulated, nvml, replay"),
        ({"file": {"state_dir": 5}}, f"{FILE}: state_dir = 5 is not the path of a directory"),
        ({"file": {"restart_hooks": 5}}, f"{FILE}: restart_hooks = 5 is not of the form"),
        ({"file": {"restart_hooks": {"chat": 5}}}, f"{FILE}: restart_hooks = {{'chat': 5}} is not"),
        ({"environment": {"MUXFLOW_AGENT_SEED": "x"}}, "MUXFLOW_AGENT_SEED=x is not an integer"),
        (
            {"environment": {"MUXFLOW_AGENT_NOED": "x"}},
            "MUXFLOW_AGENT_NOED is no setting: did you mean MUXFLOW_AGENT_NODE?",
        ),
        (
            {"environment": {"MUXFLOW_AGENT_SHARING_CEILING": "all"}},
            "MUXFLOW_AGENT_SHARING_CEILING=all is not one of off, observe, shadow, enforce",
        ),
        ({"flags": {"clock": "-1"}}, "--clock -1 is not a number over 0"),
        ({"flags": {"clock": "nan"}}, "--clock nan is not a number over 0"),
    ],
)
def test_a_fault_is_one_sentence_with_its_place(given, sentence):
    (fault,) = resolved(**given).faults
    assert fault.startswith(sentence)


def test_all_faults_are_told_and_none_that_only_follows_from_another():
    faults = resolved(flags={"gpus": "amd", "metrics_port": "x"}, file={"consle": 1}).faults
    assert len(faults) == 3


def test_no_secret_is_told_with_a_fault():
    (fault,) = resolved(flags={"console": "https://me:hunter2@console"}).faults
    assert "hunter2" not in fault


def test_the_defaults_are_those_of_the_class():
    defaults = Config()
    assert {name: one.default for name, one in SETTINGS.items()} == {
        name: getattr(defaults, name) for name in SETTINGS
    }


REAL = {"node": "n", "gpus": "nvml", "runtime": "process", "console": "ws://console/"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kubernetes": "in-cluster"}, ""),
        ({"kubernetes": "https://10.0.0.1:6443"}, ""),
        ({"kubernetes": "http://127.0.0.1:8001"}, ""),
        ({"kubernetes": "http://10.0.0.1"}, "--kubernetes must be in-cluster or an https://"),
        ({"kubernetes": "yes"}, "--kubernetes must be in-cluster or an https://"),
        ({"kubernetes": "in-cluster", "gpus": "replay", "recording": "r"}, "--kubernetes names"),
        ({"kubernetes_service_label": ""}, f"{FILE}: kubernetes_service_label = '' is not the key"),
    ],
)
def test_a_token_is_only_sent_where_it_is_safe(given, sentence):
    faults = resolved(file=REAL | given).faults
    assert bool(faults) == bool(sentence)
    assert all(fault.startswith(sentence) for fault in faults)
