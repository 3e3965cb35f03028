"""A machine with simulated GPUs and a real agent on it: NVML, the MPS daemons and every process on
a GPU are those of the stand-in driver, and what is real elsewhere is real here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from agents.control_block import BlockError, ControlBlock, Process
from agents.mps import unit
from agents.mps.control import Place
from agents.stub import mps_daemon
from agents.supervisor import start_ticks
from agents.wire import credentials as credentials_file
from agents.wire.credentials import Credentials
from tests.agents.cast import KEY
from tests.agents.fake_console import TOKEN
from tests.agents.xcuda.running import BUILD, ROOT, Runner, Server

NODE = "node-01"


class SimulatedMachine(Runner):
    """Its GPUs, and all that was started here; `close` ends it."""

    def __init__(self, folder: Path, gpus: int) -> None:
        super().__init__(folder)
        self.gpus = gpus
        self._daemons: list[unit.Daemon] = []
        keys = (Credentials(NODE, "17", TOKEN, KEY.hex()),)
        (folder / "keys.json").write_bytes(credentials_file.encode(keys))
        (folder / "keys.json").chmod(0o600)
        self.uuids = self._told_uuids()

    @property
    def variables(self) -> dict[str, str]:
        """What puts a process on this machine's GPUs."""
        file = str(self.folder / "gpu")
        return {"STUB_MPS": file, "STUB_GPUS": str(self.gpus), "STUB_TIME": "1"}

    def server(self, gpu: int) -> Server:
        """The file that is this GPU."""
        return Server(self.folder / (f"gpu.{gpu}" if gpu else "gpu"))

    def start_daemons(self) -> None:
        """As an operator's `muxflow-agent mps enable` does for each GPU."""
        program = (str(mps_daemon.write_program(self.folder)),)
        for gpu, place in enumerate(self.places()):
            with _environ(
                STUB_MPS=str(self.server(gpu).path), STUB_MPS_REPORT=str(BUILD / "mps-report")
            ):
                self._daemons.append(unit.start_detached(place, program))

    def places(self) -> list[Place]:
        return [unit.place_of(uuid, self.folder / "mps") for uuid in self.uuids]

    def start_online(
        self, gpu: int, program: str | list[str], *arguments: object, **variables: str
    ) -> subprocess.Popen[str]:
        """A process of an online service; it says "ready"."""
        env = self.variables | {"CUDA_VISIBLE_DEVICES": self.uuids[gpu]} | variables
        return self.start(program, *arguments, preload=False, env=env)

    def command(self, *words: str) -> tuple[str, ...]:
        """Of a job: words of a shell, with `$programs` at hand."""
        variables = self.variables | {"programs": str(BUILD / "programs")}
        told = (f"{name}={value}" for name, value in variables.items())
        return ("env", *told, "sh", "-c", " ".join(words))

    def start_agent(self, console_url: str, *options: str) -> subprocess.Popen[str]:
        command = [
            *(sys.executable, "-m", "agents", "--node", NODE, "--gpus", "nvml"),
            *("--runtime", "process", "--xcuda", str(BUILD / "libxcuda.so")),
            *("--console", console_url, "--credentials", str(self.folder / "keys.json")),
            *("--state-dir", str(self.folder / "state"), "--mps-dir", str(self.folder / "mps")),
            *options,
        ]
        variables = self._environment(False, None, None, self.variables) | unit_environment()
        variables["PATH"] = f"{self.folder}:{variables['PATH']}"
        agent = subprocess.Popen(command, cwd=ROOT, env=variables, text=True)
        self.started.append(agent)
        return agent

    def block(self, placement_id: str) -> ControlBlock | None:
        """A job's, once it is there."""
        with contextlib.suppress(BlockError):
            return ControlBlock(self.folder / "state" / "jobs" / placement_id / "xcuda")
        return None

    def close(self) -> None:
        super().close()
        for started in self.folder.glob("state/jobs/*/started.json"):
            told = json.loads(started.read_text())
            if start_ticks(told["pid"]) == told["pid_ticks"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(told["pid"], signal.SIGKILL)
        for daemon in self._daemons:
            if start_ticks(daemon.pid) == daemon.ticks:
                os.kill(daemon.pid, signal.SIGTERM)

    def _told_uuids(self) -> tuple[str, ...]:
        command = [sys.executable, "-m", "agents", "preflight", "--json"]
        nowhere = ("--mps-dir", str(self.folder / "mps"))
        ran = self.run([*command, *nowhere], preload=False, env=self.variables)
        return tuple(gpu["uuid"] for gpu in json.loads(ran.stdout)["gpus"])


def unit_environment() -> dict[str, str]:
    """What the agent's own unit gives it."""
    unit_file = (ROOT / "deploy" / "muxflow-agent.service").read_text()
    lines = re.findall(r"^Environment=(.*)$", unit_file, re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def processes(block: ControlBlock) -> list[Process]:
    """Those that live."""
    return [process for process in block.read_slots() if process.alive]


@contextlib.contextmanager
def _environ(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text
