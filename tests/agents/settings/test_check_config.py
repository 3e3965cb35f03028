"""`muxflow-agent check-config` and the files that settings are in."""

from __future__ import annotations

from pathlib import PosixPath

import pytest

from agents.__main__ import main
from agents.settings.command import main as check_config

CONSOLE = "wss://me:hunter2@console/ws/agent/"


@pytest.fixture
def file(tmp_path):
    credentials = tmp_path / "credentials.json"
    credentials.touch(0o600)
    path = tmp_path / "agent.toml"
    path.write_text(
        f'node = "n"\ngpus = "nvml"\nruntime = "process"\nconsole = "{CONSOLE}"\n'
        f'credentials = "{credentials}"\n\n[restart_hooks]\nchat = "restart --token=s3cret"\n'
    )
    return path


def test_values_are_told_with_where_they_came_from(file, capsys, monkeypatch):
    monkeypatch.setenv("MUXFLOW_AGENT_SEED", "11")
    assert main(["check-config", "--config", str(file), "--log-level", "DEBUG"]) == 0
    told = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert told["node"] == ["n", str(file)]
    assert told["seed"] == ["11", "MUXFLOW_AGENT_SEED"]
    assert told["log_level"] == ["DEBUG", "--log-level"]
    assert told["clock"] == ["1", "default"]


def test_secrets_are_hidden(file, capsys):
    check_config(["--config", str(file)], {})
    told = capsys.readouterr().out
    assert "wss://***@console" in told
    assert not {"hunter2", "s3cret"} & set(told.replace("=", " ").split())


def test_a_variable_may_name_the_file(file, capsys):
    assert check_config([], {"MUXFLOW_AGENT_CONFIG": str(file)}) == 0
    assert str(file) in capsys.readouterr().out


def test_every_fault_is_listed(file, capsys):
    file.write_text(file.read_text().replace('"nvml"', '"amd"').replace('"n"', "5"))
    (file.parent / "credentials.json").chmod(0o606)
    assert check_config(["--config", str(file)], {}) == 1
    faults = capsys.readouterr().err.splitlines()
    assert [fault.split(" = ")[0] for fault in faults[:2]] == [
        f"muxflow-agent: {file}: node",
        f"muxflow-agent: {file}: gpus",
    ]
    assert "can be written by anybody" in faults[2]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda file: file.unlink(), "cannot read {}: No such file or directory"),
        (lambda file: file.chmod(0o646), "{} can be written by anybody on this machine"),
        (lambda file: file.write_text("node = "), "{} is not TOML: "),
        (lambda file: file.write_bytes(b"node = '\xff'"), "{} is not TOML: "),
        (lambda file: (file.unlink(), file.mkdir()), "{} is not a file"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(file, capsys, spoil, sentence):
    spoil(file)
    assert check_config(["--config", str(file)], {}) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"muxflow-agent: {sentence.format(file)}")


def test_the_agent_does_not_start_with_credentials_that_anybody_can_write(file, capsys):
    (file.parent / "credentials.json").chmod(0o602)
    assert main(["--config", str(file), "--state-dir", str(file.parent / "state")]) == 1
    assert "can be written by anybody" in capsys.readouterr().err


def test_a_simulated_fleet_has_nothing_to_do_with_this_machines_settings(file, monkeypatch):
    monkeypatch.setattr("agents.settings.files.DEFAULT_FILE", file)
    out = file.parent / "cluster.json"
    assert main(["--simulate", "nodes=1,gpus=1", "--write-cluster", str(out)]) == 0


def test_a_folder_that_this_user_may_not_look_into_is_named(monkeypatch, capsys):
    class Closed(PosixPath):
        def stat(self, **how):
            raise PermissionError(13, "Permission denied")

    closed = Closed("/etc/muxflow-agent/agent.toml")
    monkeypatch.setattr("agents.settings.files.DEFAULT_FILE", closed)
    assert check_config([], {}) == 1
    assert f"cannot read {closed}: Permission denied" in capsys.readouterr().err
