from __future__ import annotations

import subprocess
import sys

import pytest

from agents.__main__ import main
from agents.config import Size
from agents.settings.flags import parse
from agents.wire import cluster as cluster_file
from agents.wire.names import RuntimeKind

CONSOLE = ("--console", "ws://127.0.0.1:8000/ws/agent/")
NODE = ("--node", "node-17", "--cluster", "c.json", *CONSOLE)


def test_a_fleet():
    config = parse(["--simulate", "nodes=16,gpus=8", *CONSOLE])
    assert config.simulate == Size(nodes=16, gpus=8)


def test_one_node_with_real_processes():
    command = ("--default-command", "python3 'my trainer.py'")
    config = parse([*NODE, "--runtime", "process", "--lifeline-fd", "7", *command])
    assert config.runtime is RuntimeKind.PROCESS
    assert config.default_command == ("python3", "my trainer.py")
    assert config.lifeline_fd == 7


def test_this_machine_with_its_own_gpus_needs_no_cluster_file():
    words = ["--node", "n", "--gpus", "nvml", "--runtime", "process", "--dcgm", "http://h:9400"]
    config = parse([*words, *CONSOLE])
    assert (config.gpus, config.dcgm, config.cluster) == ("nvml", "http://h:9400", None)


def test_what_restarts_an_online_service():
    config = parse([*NODE, "--restart-hook", "chat=systemctl restart 'my chat'"])
    assert config.restart_hooks == {"chat": ("systemctl", "restart", "my chat")}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "say what to run"),
        (["--simulate", "nodes=1,gpus=1", *NODE], "say what to run"),
        (["--simulate", "16x8", *CONSOLE], "not of the form nodes=16,gpus=8"),
        (["--simulate", "nodes=0,gpus=8", *CONSOLE], "not of the form"),
        (["--simulate", "nodes=1,gpus=1"], "--console must be"),
        (["--simulate", "nodes=1,gpus=1", "--console", "http://x"], "--console must be"),
        (["--node", "node-17", *CONSOLE], "give --cluster"),
        ([*NODE, "--write-cluster", "c.json"], "give that too"),
        ([*NODE, "--faults", "f.sock"], "give --simulate"),
        ([*NODE, "--clock", "0"], "--clock 0 is not a number over 0"),
        ([*NODE, "--restart-hook", "chat"], "not of the form SERVICE=COMMAND"),
        ([*NODE, "--restart-hook", "chat='x"], "is no command"),
        (["--node", "n", "--gpus", "nvml", *CONSOLE], "--runtime process"),
        (["--simulate", "nodes=1,gpus=1", "--gpus", "nvml", *CONSOLE], "for one real node"),
        ([*NODE, "--gpus", "replay", "--runtime", "process"], "give --recording"),
        ([*NODE, "--dcgm", "dcgmi"], "are for real GPUs"),
    ],
)
def test_arguments_that_make_no_sense_are_explained(words, sentence, capsys):
    with pytest.raises(SystemExit) as exit:
        parse(words)
    assert exit.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_help_names_the_other_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert "enrol ..." in told
    assert "off ..." in told


def test_a_cluster_file_is_written_the_same_twice(tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path in (first, second):
        words = ["--simulate", "nodes=2,gpus=4", "--seed", "7", "--write-cluster", str(path)]
        assert main(words) == 0
    assert first.read_bytes() == second.read_bytes()
    assert len(cluster_file.decode(first.read_bytes()).nodes) == 2


def test_what_is_missing_is_one_sentence(tmp_path, capsys):
    words = ["--simulate", "nodes=1,gpus=1", *CONSOLE, "--credentials", str(tmp_path / "none")]
    assert main([*words, "--state-dir", str(tmp_path)]) == 1
    assert "enrol the node first" in capsys.readouterr().err


def test_off_and_back_on(tmp_path, capsys):
    where = ("--state-dir", str(tmp_path))
    assert main(["off", "--gpu", "GPU-1", *where]) == 0
    assert main(["off", "--undo", *where]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Sharing is off on GPU GPU-1.",
        "Nothing is switched off here; the console's sharing mode holds again.",
    ]


def test_enrolling_a_node_that_the_cluster_file_does_not_have(tmp_path, capsys):
    main(["--simulate", "nodes=1,gpus=1", "--write-cluster", str(tmp_path / "c.json")])
    words = ["enrol", "--console", "http://127.0.0.1:9", "--token", "t", "--node", "node-99"]
    assert main([*words, "--cluster", str(tmp_path / "c.json")]) == 1
    assert "does not describe node-99" in capsys.readouterr().err


def test_enrol_and_off_need_no_packages_of_a_simulation():
    assert "numpy" not in _imported_by("agents.__main__")


def _imported_by(module):
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()
