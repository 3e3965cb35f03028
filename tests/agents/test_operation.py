"""One real agent process from its start to its uninstallation, with no console to reach."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from agents.__main__ import main
from agents.wire import credentials
from agents.wire.credentials import Credentials
from tests.agents.cast import KEY
from tests.agents.metrics.strict import parse

pytestmark = pytest.mark.timeout(30)

TOKEN = "t0ken-of-the-node"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def written(tmp_path):
    """A settings file, and all that it names."""
    main(["--simulate", "nodes=1,gpus=2", "--write-cluster", str(tmp_path / "cluster.json")])
    secret = tmp_path / "credentials.json"
    secret.touch(0o600)
    secret.write_bytes(credentials.encode((Credentials("node-01", "1", TOKEN, KEY.hex()),)))
    values = {
        "node": "node-01",
        "runtime": "process",
        "cluster": str(tmp_path / "cluster.json"),
        "console": f"ws://127.0.0.1:{free_port()}/ws/agent/",
        "credentials": str(secret),
        "state_dir": str(tmp_path / "state"),
        "log_format": "json",
        "metrics_port": free_port(),
    }
    path = tmp_path / "agent.toml"
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    return path, values


def until(condition, within_s=15.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def test_it_runs_tells_what_it_does_and_leaves_nothing(written, tmp_path, capsys):
    path, values = written
    where = ["--config", str(path)]
    with (tmp_path / "log").open("w") as log:
        agent = subprocess.Popen([sys.executable, "-m", "agents", *where], stderr=log)
    try:
        until(lambda: main(["status", *where]) == 0)
        capsys.readouterr()
        main(["status", "--json", *where])
        (node,) = json.loads(capsys.readouterr().out)["agent"]["nodes"]
        assert [gpu["index"] for gpu in node["gpus"]] == [0, 1]
        with urllib.request.urlopen(f"http://127.0.0.1:{values['metrics_port']}/metrics") as page:
            assert "muxflow_agent_lease_left_seconds" in parse(page.read().decode())
        assert main(["off", "--gpu", "GPU-of-nobody", *where]) == 1
        assert main(["off", *where]) == 0
        assert main(where) == 1
        assert f"(PID {agent.pid})" in capsys.readouterr().err
        assert main(["uninstall", "--yes", *where]) == 1
    finally:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(10) == 0
    lines = (tmp_path / "log").read_text()
    assert all(json.loads(line)["level"] for line in lines.splitlines())
    assert TOKEN not in lines
    assert main(["uninstall", "--yes", *where]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.toml", "cluster.json", "log"]
