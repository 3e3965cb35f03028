"""The commands by which this node restarts its online services, from its own configuration.

The console never sends a command: desired state names services, and this table, which only the
node's owner writes, says what restarts which.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
from collections.abc import Mapping
from typing import Final

log = logging.getLogger(__name__)

HOOK_S: Final = 60.0
REAP_S: Final = 0.5


class RestartHooks:
    """Runs a hook beside the agent's loop, one at a time for each service."""

    def __init__(self, commands: Mapping[str, tuple[str, ...]], within_s: float = HOOK_S) -> None:
        self._commands, self._within_s = dict(commands), within_s
        self._running: dict[str, threading.Thread] = {}

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
        return thread is not None and thread.is_alive()

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
