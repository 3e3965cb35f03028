"""The library, the stand-in driver and the programs: built once, and run together."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.control_block import ControlBlock

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "xcuda"
# Settings of the machine that would change what a test sees.
FOREIGN = ("STUB_", "MUXFLOW_XCUDA_", "CUDA_MPS_", "LD_", "MAKE", "MFLAGS")


def can_build() -> bool:
    return bool(shutil.which("make") and shutil.which(os.environ.get("CC", "gcc")))


def build(*targets: str | Path) -> None:
    """Builds what is out of date; of several test processes the first does, the others wait."""
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [
        "make",
        "--silent",
        "--jobs=2",
        "-C",
        ROOT / "agents" / "xcuda",
        f"OUT={BUILD}",
        *targets,
    ]
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = subprocess.run(command, env=_clean(), capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def _clean() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}


@dataclass(frozen=True)
class Server:
    """The file that plays the MPS server, and with it one simulated GPU."""

    path: Path

    def report(self, *options: str) -> dict[str, Any]:
        """Looks for the dead, then tells what is known; see `docs/xcuda-stub.md`."""
        command = [BUILD / "mps-report", self.path, *options]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        return dict(json.loads(told.stdout))

    def restart(self) -> dict[str, Any]:
        return self.report("--restart")


@dataclass(frozen=True)
class Ran:
    """How a program ended. `told` is the last line of its output, where that is JSON."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.stdout.splitlines()[-1]))


def next_line(process: subprocess.Popen[str]) -> str:
    """Of its output. Byte by byte: what was read ahead, `communicate` would not find any more."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(process.stdout.fileno(), 1)):
        line += byte
    return line.decode()


@dataclass
class Runner:
    """Runs programs on the stand-in driver, with the library preloaded unless told otherwise."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(
        self,
        program: str | list[str],
        *arguments: object,
        preload: bool = True,
        block: ControlBlock | None = None,
        server: Server | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 9,
    ) -> Ran:
        """Runs to the end. `program` is one of `agents/stub/programs`, or a command."""
        done = subprocess.run(
            self._command(program, arguments),
            env=self._environment(preload, block, server, env),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(
        self,
        program: str | list[str],
        *arguments: object,
        preload: bool = True,
        block: ControlBlock | None = None,
        server: Server | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Runs in the background, and returns when the program has said that it is ready."""
        process = subprocess.Popen(
            self._command(program, arguments),
            env=self._environment(preload, block, server, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        line = next_line(process)
        assert line == "ready\n", (line, process.communicate())
        return process

    def finish(self, process: subprocess.Popen[str], timeout_s: float = 9) -> Ran:
        """Waits for a started program to end."""
        out, err = process.communicate(timeout=timeout_s)
        return Ran(process.returncode, out, err)

    def python(self, code: str, *, ready: bool = False, **how: Any) -> Any:
        """Runs Python code that has `cuda` of `tests/agents/xcuda/calls.py` at hand.

        Returns what it printed as JSON, or the running process when it is to say `ready`.
        """
        prelude = f"import json, sys, time\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        prelude += "from calls import *\n"
        command = [sys.executable, "-I", "-c", prelude + textwrap.dedent(code)]
        if ready:
            return self.start(command, **how)
        ran = self.run(command, **how)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def _command(self, program: str | list[str], arguments: tuple[object, ...]) -> list[str]:
        words = [str(BUILD / "programs" / program)] if isinstance(program, str) else program
        return [*words, *map(str, arguments)]

    def _environment(
        self,
        preload: bool,
        block: ControlBlock | None,
        server: Server | None,
        env: Mapping[str, str] | None,
    ) -> dict[str, str]:
        variables = _clean() | {"LD_LIBRARY_PATH": str(BUILD / "stub")}
        if preload:
            variables["LD_PRELOAD"] = str(BUILD / "libxcuda.so")
        if block is not None:
            variables["MUXFLOW_XCUDA_DIR"] = str(block.directory)
        if server is not None:
            variables["STUB_MPS"] = str(server.path)
        return variables | dict(env or {})

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
