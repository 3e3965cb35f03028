"""Where the steps run, on a real GPU or on the stand-in driver, and how to start clients there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from agents.control_block import ControlBlock, Limits, Process
from tests.gpu.client import ROOT, Client
from tests.gpu.figure import Failed, Figure, Missing

WORKER = Path(__file__).with_name("worker.c")


@dataclass
class Machine:
    """`folder` is for what the run writes; `built` for what it compiles."""

    stub: bool
    folder: Path
    built: Path
    clients: list[Client] = field(default_factory=list)
    blocks: int = 0
    mps: bool = False

    # --- what it has -------------------------------------------------------------------------

    def build(self) -> None:
        """Raises Missing without a compiler, Failed when it refuses."""
        for tool, package in (("gcc", "gcc libc6-dev"), ("make", "make")):
            if not shutil.which(tool):
                raise Missing(f"no {tool} (Debian, Ubuntu: apt install {package})")
        parts = ["lib", "stub", "tools"] if self.stub else ["lib", f"{self.built}/xcuda-block"]
        self._compile("make", "--silent", "-C", str(ROOT / "agents/xcuda"), *parts)
        language = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-iquote", str(ROOT / "agents/xcuda/src")]
        self._compile("gcc", *language, "-o", str(self.worker), str(WORKER), "-ldl", "-lpthread")

    def _compile(self, *command: str) -> None:
        """One at a time in one folder, together with the tests of xCUDA."""
        self.built.mkdir(parents=True, exist_ok=True)
        out = [f"OUT={self.built}"] if command[0] == "make" else []
        with (self.built / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run([*command, *out], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{command[0]}: {(done.stderr.strip() or '?').splitlines()[-1]}")

    @property
    def worker(self) -> Path:
        return self.built / "gpu-worker"

    @property
    def library(self) -> Path:
        return self.built / "libxcuda.so"

    @cached_property
    def device(self) -> dict[str, Any]:
        """What the driver says of its first GPU. Raises Missing without one."""
        if not self.worker.exists():
            raise Missing("nothing was built")
        return self.ask("device")[0]

    # --- the MPS daemon ----------------------------------------------------------------------

    def start_mps(self) -> None:
        """A control daemon of our own, with its pipes in our folder. Raises Missing, Failed."""
        if not self.stub:
            self._start_daemon()
        self.mps = True

    def _start_daemon(self) -> None:
        if not shutil.which("nvidia-cuda-mps-control"):
            raise Missing("no nvidia-cuda-mps-control")
        (self.folder / "mps").mkdir()
        done = subprocess.run(
            ["nvidia-cuda-mps-control", "-d"],
            env=os.environ | self._mps_folders(),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        if done.returncode != 0:
            raise Failed(f"the MPS daemon did not start: {(done.stdout + done.stderr).strip()}")

    def _mps_folders(self) -> dict[str, str]:
        """Short, since the pipes are sockets, whose paths may have some hundred characters."""
        folder = str(self.folder / "mps")
        return {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}

    def tell_mps(self, command: str) -> str:
        """Returns the daemon's answer. Raises Missing on the stand-in driver, which has none."""
        if self.stub:
            raise Missing("the stand-in driver has no control daemon")
        done = subprocess.run(
            ["nvidia-cuda-mps-control"],
            input=command + "\n",
            env=os.environ | self._mps_folders(),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        return done.stdout.strip()

    def mps_report(self) -> dict[str, Any]:
        """What the server of the stand-in driver has counted."""
        command = [self.built / "mps-report", self.folder / "gpu"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def restart_mps(self) -> None:
        """After a client was killed with its work in flight."""
        if self.stub:
            command = [self.built / "mps-report", self.folder / "gpu", "--restart"]
            subprocess.run(command, capture_output=True, check=True)
        elif self.mps:
            self.tell_mps("quit -t 5")
            time.sleep(2)
            self._start_daemon_again()

    def _start_daemon_again(self) -> None:
        shutil.rmtree(self.folder / "mps", ignore_errors=True)
        self._start_daemon()

    # --- clients -----------------------------------------------------------------------------

    @contextmanager
    def block(self, limits: Limits | None = None) -> Iterator[ControlBlock]:
        """A control block of its own for what is started with it."""
        self.blocks += 1
        with ControlBlock.create(self.folder / f"block-{self.blocks}", self.blocks, limits) as it:
            yield it

    def environment(self, block: ControlBlock | None, extra: dict[str, str]) -> dict[str, str]:
        told = {name: value for name, value in os.environ.items() if not name.startswith("MUXFLOW")}
        if self.stub:
            told["LD_LIBRARY_PATH"] = str(self.built / "stub")
            told |= {"STUB_TIME": "1", "STUB_MPS": str(self.folder / "gpu")}
        elif self.mps:
            told |= self._mps_folders()
        if block:
            told["LD_PRELOAD"] = str(self.library)
            told["MUXFLOW_XCUDA_DIR"] = str(block.directory)
            told["MUXFLOW_XCUDA_REQUIRED"] = "1"
        return told | extra

    def ask(
        self, *arguments: str, block: ControlBlock | None = None, **extra: str
    ) -> list[dict[str, Any]]:
        """Runs the worker to its end and returns its lines. Raises Missing, Failed."""
        if not self.worker.exists():
            raise Missing("nothing was built")
        with self.start(*arguments, block=block, **extra) as client:
            client.end()
            return client.lines

    def start(self, *arguments: str, block: ControlBlock | None = None, **extra: str) -> Client:
        return self.start_program([str(self.worker), *arguments], block, extra)

    def start_program(
        self, command: list[str], block: ControlBlock | None, extra: dict[str, str]
    ) -> Client:
        client = Client(command, self.environment(block, extra))
        self.clients.append(client)
        return client

    def free_bytes(self) -> int:
        return int(self.ask("device")[0]["free_bytes"])

    def close(self) -> None:
        """Ends every client, gently where it can, and the daemon that we started."""
        for client in self.clients:
            client.close()
        if self.mps and not self.stub:
            with suppress(subprocess.TimeoutExpired):  # it hangs, and what was found is still told
                self.tell_mps("quit -t 5")


def process_of(block: ControlBlock, client: Client) -> Process:
    """The client's slot. Raises Failed when it has none."""
    for process in block.read_slots():
        if process.pid == client.pid or process.host_pid == client.pid:
            return process
    raise Failed(f"{client.name} has no slot in the control block: it runs without limits")


@contextmanager
def loop(
    machine: Machine, kind: str, us: int, block: ControlBlock | None = None
) -> Iterator[Client]:
    """A client that works without end, once it does."""
    with machine.start("run", kind, str(us), block=block) as client:
        client.until_working()
        yield client


Step = Callable[[Machine], Figure]
