"""A real agent in a process of its own, with GPUs out of a cluster file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.wire import cluster as cluster_file
from agents.wire import credentials as credentials_file
from agents.wire.cluster import Cluster, ClusterGpu, ClusterNode
from agents.wire.credentials import Credentials
from agents.wire.names import RuntimeKind
from tests.agents.cast import KEY
from tests.agents.fake_console import TOKEN

ROOT = Path(__file__).parents[2]
GPUS = tuple(ClusterGpu(f"GPU-{index}", "A10 24 GB", 24 << 30) for index in range(2))
OWN_KEYS = Credentials("node-01", "17", TOKEN, KEY.hex())


class AgentProcess:
    """Its folders outlive it; `before` are words before its command (a namespace, a limit)."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *words: str,
        keys: Credentials = OWN_KEYS,
        before: Sequence[str] = (),
        state_dir: Path | None = None,
    ) -> None:
        self.folder, self.state_dir = folder, state_dir or folder / "state"
        node = ClusterNode(keys.node, "lab", GPUS, runtime=RuntimeKind.PROCESS)
        cluster, kept = folder / "cluster.json", folder / "keys.json"
        cluster.write_bytes(cluster_file.encode(Cluster("lab", (node,))))
        kept.touch(0o600)
        kept.write_bytes(credentials_file.encode((keys,)))
        self._command = [
            *(*before, sys.executable, "-m", "agents", "--node", keys.node),
            *("--runtime", "process", "--cluster", str(cluster), "--console", url),
            *("--credentials", str(kept), "--state-dir", str(self.state_dir), *words),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stderr=log)
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def warnings(self) -> list[str]:
        """What it logged above INFO, without time and name of the logger."""
        lines = (self.folder / "log").read_text().splitlines()
        return [
            line.split(": ", 1)[1] for line in lines if " WARNING " in line or " ERROR " in line
        ]
