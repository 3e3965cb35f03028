"""One online service: its process, the clients that ask it, and what they were answered."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PERIOD_S: Final = 0.1
REQUEST_S: Final = 1.0
STOP_S: Final = 2.0
AGAIN_S: Final = 1.0
# As a service manager would in the end, also where no agent calls the hook.
UNASKED_S: Final = 30.0
MEMORY_BYTES: Final = 8 << 30
BOUNDS_S: Final = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)


@dataclass
class Tally:
    """Requests since the beginning. `buckets` are cumulative, by upper bound in seconds."""

    answered: int = 0
    lost: int = 0
    total_s: float = 0.0
    answered_at: float = 0.0
    buckets: dict[float, int] = field(default_factory=lambda: dict.fromkeys(BOUNDS_S, 0))

    def answer(self, took_s: float, now: float) -> None:
        self.answered += 1
        self.answered_at = now
        self.total_s += took_s
        for bound in BOUNDS_S:
            self.buckets[bound] += took_s <= bound


class Service:
    """Supervised: a process that fails is started again when the hook asks for it."""

    def __init__(self, name: str, gpu_uuid: str, environment: Mapping[str, str]) -> None:
        """`environment` makes its process a client of the GPU's MPS daemon."""
        self.name, self.gpu_uuid, self.tally = name, gpu_uuid, Tally()
        self._environment = os.environ | dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._heard = b""
        self._start_at = 0.0
        self._asked = threading.Event()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def answers(self) -> bool:
        return time.monotonic() - self.tally.answered_at < 3 * PERIOD_S + REQUEST_S

    def restart(self) -> None:
        """Soon; one that answers goes on."""
        self._asked.set()

    def run(self) -> None:
        """Asks it ten times a second, for ever."""
        due = time.monotonic()
        while True:
            due = max(due + PERIOD_S, time.monotonic() - REQUEST_S)
            time.sleep(max(0.0, due - time.monotonic()))
            self._supervise(time.monotonic())
            self._ask(due)

    # --- its process ----------------------------------------------------------------------

    def _supervise(self, now: float) -> None:
        if self._process is not None and self._process.poll() is not None:
            failed_to_start = not self._ready
            self._forget()
            self._start_at = now + (AGAIN_S if failed_to_start else UNASKED_S)
        if self._asked.is_set():
            self._asked.clear()
            self._start_at = now
        if self._process is None and now >= self._start_at:
            self._start()

    def _start(self) -> None:
        command = (sys.executable, "-m", "agents.stub.online_service")
        self._process = subprocess.Popen(
            (*command, "--memory-bytes", str(MEMORY_BYTES)),
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._ready, self._heard = False, b""

    def _forget(self) -> None:
        if self._process is not None:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._process, self._ready = None, False

    def _end(self) -> None:
        """It ends with its input; a process that hangs is killed."""
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # --- its clients ----------------------------------------------------------------------

    def _ask(self, due: float) -> None:
        """One request; it is lost when nobody answers it, or not in time."""
        if self._process is None or not self._is_ready():
            self.tally.lost += self.tally.answered > 0
            return
        with contextlib.suppress(OSError):
            self._write(b"\n")
        answer = self._line(REQUEST_S)
        now = time.monotonic()
        if answer is not None and answer.replace(b".", b"").isdigit():
            self.tally.answer(now - due, now)
            return
        self.tally.lost += 1
        self._end()

    def _is_ready(self) -> bool:
        if not self._ready:
            self._ready = self._line(0.0) == b"ready"
        return self._ready

    def _write(self, text: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(text)

    def _line(self, within_s: float) -> bytes | None:
        """The next line it says, None when it does not."""
        until = time.monotonic() + within_s
        while b"\n" not in self._heard:
            stream = None if self._process is None else self._process.stdout
            if stream is None:
                return None
            readable, _, _ = select.select([stream], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(stream.fileno(), 4096) if readable else b""
            if not piece:
                return None
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line
