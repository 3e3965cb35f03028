"""A process that works on the GPU, seen from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.gpu.figure import Failed, Missing

ROOT = Path(__file__).resolve().parent.parent.parent
NO_GPU = 4
END_TIMEOUT_S = 120.0


class Client:
    """A process on the GPU that says what it does as JSON lines, until its input ends."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.command = command
        self.lines: list[dict[str, Any]] = []
        self.said = ""
        self.readers = [threading.Thread(target=read) for read in (self._read, self._read_errors)]
        for reader in self.readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.said = (self.said + line)[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def last(self) -> dict[str, Any]:
        return self.lines[-1] if self.lines else {}

    @property
    def done(self) -> int:
        return int(self.last.get("done", 0))

    def until(self, true: Callable[[], bool], what: str, timeout_s: float = 60.0) -> float:
        """Waits for it and returns how long it took, in seconds. Raises Failed, Missing."""
        began_s = time.monotonic()
        while not true():
            if self.process.poll() is not None:
                self._raise_for_end()
            if time.monotonic() - began_s > timeout_s:
                raise Failed(f"{what} did not happen within {timeout_s:g} s")
            time.sleep(0.002)
        return time.monotonic() - began_s

    def until_working(self) -> None:
        self.until(lambda: self.done > 0, "the first work")

    def end(self) -> None:
        """Lets it finish. Raises Failed when a call of it failed, Missing without a GPU."""
        self._close_input()
        self._wait(END_TIMEOUT_S)
        if self.process.returncode != 0:
            self._raise_for_end()

    def signal(self, number: signal.Signals, timeout_s: float = 60.0) -> int:
        """Sends it, waits for the end, and returns the exit status."""
        self.process.send_signal(number)
        self._wait(timeout_s)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self._close_input()
            try:
                self._wait(10)
            except Failed:
                self.process.kill()
                self._wait(10)

    def _close_input(self) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def _wait(self, timeout_s: float) -> None:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} does not end") from None
        for reader in self.readers:
            reader.join(5)

    @property
    def name(self) -> str:
        return " ".join(Path(it).name for it in self.command)

    def _raise_for_end(self) -> None:
        for reader in self.readers:
            reader.join(5)
        if self.process.returncode == NO_GPU:
            raise Missing(self.last["missing"])
        if "failed" in self.last:
            raise Failed(f"{self.name}: {self.last['failed']} returned {self.last['code']}")
        said = self.said.strip().splitlines()[-1:] or ["nothing on stderr"]
        raise Failed(f"{self.name} ended with {self.process.returncode}: {said[0]}")
