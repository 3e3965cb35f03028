"""Node 17 as the launcher starts it: an agent of its own, and the machine that it runs on.

With xCUDA and the stand-in driver built, its two GPUs are theirs: MPS daemons, online services and
jobs are real processes. Without, its processes are real and its GPU values simulated.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from console.demo.cluster import GIB, REAL_GPU_BYTES, REAL_MODELS, REAL_NODE, REAL_SERVICES
from console.demo.processes import PYTHON

# What `make xcuda` builds and the node needs.
PARTS: Final = ("libxcuda.so", "mps-report", "stub/libcuda.so.1", "stub/libnvidia-ml.so.1")


def why_without_xcuda(build: Path) -> str:
    """One sentence with the way out, "" when all of it is there."""
    if all((build / part).exists() for part in PARTS):
        return ""
    if shutil.which(os.environ.get("CC") or "gcc") is None:
        return (
            "xCUDA is not built, for there is no C compiler here: install one (Debian, Ubuntu:"
            " apt install gcc libc6-dev) and run make demo again."
        )
    return "xCUDA is not built: make xcuda says why. Then run make demo again."


@dataclass(frozen=True)
class RealNode:
    """`build` is where `make xcuda` builds, `folder` that of the demo, `lifeline` the reading end
    of a pipe that ends with the launcher."""

    build: Path
    folder: Path
    console_url: str
    clock: str
    lifeline: int
    metrics_port: int
    under_mps: bool

    def agent(self) -> tuple[str, ...]:
        return (
            *(PYTHON, "-m", "agents", "--node", REAL_NODE, "--runtime", "process"),
            *("--console", self.console_url),
            *("--credentials", str(self.folder / "node-17.json")),
            *("--state-dir", str(self.folder / "state" / REAL_NODE)),
            *("--lifeline-fd", str(self.lifeline)),
            *("--clock", self.clock),
            *(self._on_stand_in_gpus() if self.under_mps else self._on_simulated_gpus()),
        )

    def _on_simulated_gpus(self) -> tuple[str, ...]:
        return (
            *("--cluster", str(self.folder / "cluster.json")),
            # For a job of the ordinary queue that is placed here: those bring no program.
            *("--default-command", f"{PYTHON} -m agents.stub.trainer"),
        )

    def _on_stand_in_gpus(self) -> tuple[str, ...]:
        hooks = (f"{service}={shlex.join(self._hook(service))}" for service in REAL_SERVICES)
        return (
            *("--gpus", "nvml", "--config", str(self._no_settings())),
            *("--xcuda", str(self.build / "libxcuda.so"), "--mps-dir", str(self.mps_dir)),
            *("--default-command", f"{PYTHON} -m agents.stub.gpu_trainer"),
            *(word for hook in hooks for word in ("--restart-hook", hook)),
        )

    def _no_settings(self) -> Path:
        """So that the agent does not read those of this machine's own."""
        path = self.folder / "agent.toml"
        path.touch(0o600)
        return path

    def _hook(self, service: str) -> tuple[str, ...]:
        return (PYTHON, "-m", "agents.stub.lab", "restart", service, "--socket", str(self.socket))

    def lab(self) -> tuple[str, ...]:
        """The machine: MPS daemons, online services, and what answers the panel."""
        return (
            *(PYTHON, "-m", "agents.stub.lab", "--mps-dir", str(self.mps_dir)),
            *("--socket", str(self.socket), "--metrics-port", str(self.metrics_port)),
            *("--build", str(self.build), *REAL_SERVICES),
        )

    def gpus(self) -> tuple[str, ...]:
        """Prints the UUIDs."""
        return (PYTHON, "-m", "agents.stub.lab", "gpus")

    def environment(self) -> dict[str, str]:
        """Of every process there: its driver, and programs by the names of NVIDIA's."""
        return {
            "LD_LIBRARY_PATH": str(self.build / "stub"),
            "PATH": f"{self.mps_dir / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "STUB_MPS": str(self.mps_dir / "gpu"),
            "STUB_GPUS": str(len(REAL_MODELS)),
            "STUB_NAMES": "|".join(REAL_MODELS),
            "STUB_MEMORY": f"{REAL_GPU_BYTES // GIB}GiB",
            "STUB_TIME": "1",
        }

    @property
    def mps_dir(self) -> Path:
        return self.folder / "state" / "mps"

    @property
    def socket(self) -> Path:
        return self.folder / "lab.sock"

    def tell_metrics(self, database: Path) -> None:
        """Where each service shows its latency: the port is another one at each start."""
        url = f"http://127.0.0.1:{self.metrics_port}"
        told = [(f"{url}/{service}", service) for service in REAL_SERVICES]
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.executemany(
                "UPDATE workloads_onlineservice SET metrics_url = ? WHERE name = ?", told
            )
