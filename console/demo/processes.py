"""Child processes that die with their parent, report when they are ready, and are restarted."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1
RESTART_FIRST_S, RESTART_MAX_S = 0.5, 8.0
STEADY_AFTER_S = 20.0

PYTHON = sys.executable

_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """In the child, before exec: the kernel kills it when the parent is gone, however it went."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Child:
    """One process of the demo. `stop_s` is how long it may take to stop by itself.

    Readiness is the service-manager notification protocol: the process sends READY=1 to the
    datagram socket named in NOTIFY_SOCKET. `reports` is False for programs that do not speak it.
    """

    name: str
    command: Sequence[str]
    env: dict[str, str]
    folder: Path
    reports: bool = True
    stop_s: float = 5.0
    pass_fds: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    restart_delay_s: float = RESTART_FIRST_S
    notify: socket.socket | None = field(default=None, repr=False)
    ready: bool = False

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        env = self.env | ({"NOTIFY_SOCKET": self._listen()} if self.reports else {})
        with self._log() as log:
            self.process = subprocess.Popen(
                list(self.command),
                env=os.environ | env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.pass_fds,
                preexec_fn=die_with_parent,
            )
        self.started_at, self.ready = time.monotonic(), not self.reports

    def _log(self) -> IO[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.log_path.open("ab")

    def _listen(self) -> str:
        path = self.folder / f"{self.name}.ready"
        path.unlink(missing_ok=True)
        if self.notify:
            self.notify.close()
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.notify.bind(str(path))
        return str(path)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        while self.notify and not self.ready:
            try:
                self.ready = b"READY=1" in self.notify.recv(4_096)
            except BlockingIOError:
                break
        return self.ready and self.alive

    def watch(self, now: float) -> str:
        """Start it again when it died; returns one line for the person, or nothing."""
        if self.alive:
            if now - self.started_at > STEADY_AFTER_S:
                self.restart_delay_s = RESTART_FIRST_S
            return ""
        if not self.restart_at:
            self.restart_at = now + self.restart_delay_s
            self.restart_delay_s = min(2 * self.restart_delay_s, RESTART_MAX_S)
            code = self.process.returncode if self.process else None
            return f"{self.name} ended ({code}); it starts again. Its log: {self.log_path}"
        if now >= self.restart_at:
            self.restart_at = 0.0
            self.start()
        return ""

    def terminate(self) -> None:
        if self.alive and self.process:
            self.process.terminate()

    def wait_gone(self) -> None:
        """Wait for its own end as long as it may take, then end it."""
        if self.notify:
            self.notify.close()
        if self.process is None:
            return
        try:
            self.process.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self, lines: int = 15) -> str:
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
