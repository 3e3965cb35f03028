"""The commands by which this node restarts its online services, from its own configuration.

The console never sends a command: desired state names services, and this table, which only the
node's owner writes, says what restarts which.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from agents.supervisor import start_ticks, write_durably

log = logging.getLogger(__name__)

HOOK_S: Final = 60.0
REAP_S: Final = 0.5
FILE_NAME: Final = "hooks.json"


class Running(msgspec.Struct, frozen=True):
    """A hook at work: its process, by pid and start time, and when it began (unix seconds)."""

    pid: int
    ticks: int | None
    at: float


_decoder: Final = msgspec.json.Decoder(dict[str, Running])


class RestartHooks:
    """Runs a hook beside the agent's loop, one at a time for each service.

    A hook outlives an agent that is killed meanwhile. So each is written down while it runs, and
    the next agent waits for it instead of running it beside itself.
    """

    def __init__(
        self,
        commands: Mapping[str, tuple[str, ...]],
        within_s: float = HOOK_S,
        folder: Path | None = None,
    ) -> None:
        """Without a `folder` nothing is written down."""
        self._commands, self._within_s = dict(commands), within_s
        self._running: dict[str, threading.Thread] = {}
        self._file = None if folder is None else folder / FILE_NAME
        # Of the life before this one, and of this one.
        self._left, self._mine = self._read(), dict[str, Running]()
        self._lock = threading.Lock()

    def has(self, service: str) -> bool:
        return service in self._commands

    def run(self, service: str) -> bool:
        """False when there is no hook for it, so that a person must be told. One that still runs
        is not started twice."""
        if not self.has(service):
            return False
        if not self.is_running(service):
            thread = threading.Thread(
                target=self._run, args=(service,), name=f"restart {service}", daemon=True
            )
            self._running[service] = thread
            thread.start()
        return True

    def is_running(self, service: str) -> bool:
        thread = self._running.get(service)
        return (thread is not None and thread.is_alive()) or self._is_left(service)

    def _is_left(self, service: str) -> bool:
        """Whether one that an earlier life of this agent started is still at work in its time."""
        left = self._left.get(service)
        if left is None:
            return False
        if left.ticks is not None and start_ticks(left.pid) == left.ticks:
            if time.time() - left.at < self._within_s:
                return True
            with contextlib.suppress(OSError):
                os.kill(left.pid, signal.SIGKILL)
            log.error("the hook that restarts %s took over %.0f s", service, self._within_s)
        del self._left[service]
        return False

    def _run(self, service: str) -> None:
        """In a session of its own: what it starts is not ours, and outlives the agent."""
        try:
            process = subprocess.Popen(
                self._commands[service],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._note(service, process.pid)
            code = process.wait(self._within_s)
        except OSError as error:
            log.error("the hook that restarts %s cannot be run: %s", service, error)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(REAP_S)
            log.error("the hook that restarts %s took over %.0f s", service, self._within_s)
        else:
            say = log.info if code == 0 else log.error
            say("the hook that restarts %s ended with status %d", service, code)
        self._note(service, None)

    def _note(self, service: str, pid: int | None) -> None:
        """That it runs; None: no more. A disk that takes nothing keeps no service from coming
        back."""
        with self._lock:
            self._mine.pop(service, None)
            if pid is not None:
                self._mine[service] = Running(pid, start_ticks(pid), time.time())
            if self._file is not None:
                with contextlib.suppress(OSError):
                    write_durably(self._file, msgspec.to_builtins(self._left | self._mine))

    def _read(self) -> dict[str, Running]:
        """What makes no sense is forgotten."""
        if self._file is None:
            return {}
        try:
            return _decoder.decode(self._file.read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
