"""One control daemon, asked through NVIDIA's own program: one command an invocation, over stdin.

Every call has a deadline and a bound on what it reads: the program waits without end for a daemon
that hangs. A call blocks its thread; the agent's loop never makes one (see `watch`).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from agents.mps.answers import BadAnswer, quoted
from agents.mps.dialect import Dialect, Question, Version2

PROGRAM: Final = "nvidia-cuda-mps-control"
DEADLINE_S: Final = 2.0
# `terminate_client` returns when the client's contexts are torn down, which takes a while.
TERMINATE_S: Final = 3.0
MAX_ANSWER_BYTES: Final = 1 << 20
REAP_S: Final = 0.5
# A program that has closed its output ends within moments.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.0005, 0.05
IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the one daemon of one GPU listens and logs. Absolute paths."""

    gpu_uuid: str
    pipe_directory: Path
    log_directory: Path

    def environment(self) -> dict[str, str]:
        """What makes a process talk to this daemon and no other."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe_directory),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log_directory),
        }

    @property
    def pid_file(self) -> Path:
        return self.pipe_directory / "nvidia-cuda-mps-control.pid"

    @property
    def server_log(self) -> Path:
        return self.log_directory / "server.log"

    @property
    def control_log(self) -> Path:
        return self.log_directory / "control.log"


class ControlFailed(RuntimeError):
    """No answer; the text says what failed and why."""


class NoProgram(ControlFailed):
    """The driver's MPS programs are not installed here."""


class NoDaemon(ControlFailed):
    """Nothing listens in the pipe directory, or what is there is left over from a dead one."""


class NotPermitted(ControlFailed):
    """This user may not talk to the daemon."""


class TooLate(ControlFailed):
    """The daemon did not answer within the deadline."""


class Control:
    """Asks one daemon. Holds nothing open between calls, so there is nothing to go stale."""

    def __init__(
        self,
        place: Place,
        program: Sequence[str] = (PROGRAM,),
        dialect: Dialect | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.place = place
        self.dialect: Dialect = Version2() if dialect is None else dialect
        self.program, self._deadline_s = tuple(program), deadline_s
        # Killed, and held on to by the kernel.
        self._unreaped: list[int] = []

    def ask(self, question: Question[T], deadline_s: float | None = None) -> T:
        """Raises ControlFailed, or answers.BadAnswer for an answer that cannot be read."""
        self._expect_daemon()
        within_s = self._deadline_s if deadline_s is None else deadline_s
        try:
            code, text = self._invoke(question.text, within_s)
        except OSError as error:  # this machine is out of something
            raise ControlFailed(f"{self.program[0]} cannot be run: {error}") from error
        if code != 0:
            raise _failure(question.text, code, text)
        return question.read(text)

    def terminate_client(self, server_pid: int, client_pid: int) -> None:
        """Ends a client's contexts, busy or not, without harm to others; its process lives on
        and gets error 810. Raises as `ask`."""
        self.ask(self.dialect.terminate_client(server_pid, client_pid), TERMINATE_S)

    def _expect_daemon(self) -> None:
        """Spares a process where nothing can answer."""
        socket = self.place.pipe_directory / "control"
        try:
            socket.lstat()
        except PermissionError as error:
            raise NotPermitted(
                f"{self.place.pipe_directory} is closed to this user: run the agent as root, or"
                " as the user that started the daemon"
            ) from error
        except OSError as error:
            raise NoDaemon(f"no MPS control daemon listens at {socket}") from error

    def _invoke(self, command: str, deadline_s: float) -> tuple[int, str]:
        """Exit status and all that it printed."""
        deadline = time.monotonic() + deadline_s
        with contextlib.ExitStack() as open_ends:
            answer, writing = os.pipe()
            open_ends.callback(os.close, answer)
            try:
                pid = self._spawn(_written(command), writing)
            finally:
                os.close(writing)
            try:
                text = _read(answer, command, deadline)
                return _status(pid, command, deadline), text.decode(errors="replace")
            except BaseException:
                self._kill(pid)
                raise

    def _spawn(self, question: int, answer: int) -> int:
        """A session of its own. Not by `subprocess`, which costs twice as much."""
        self._unreaped = [pid for pid in self._unreaped if _reaped(pid) is None]
        ends = ((question, 0), (answer, 1), (answer, 2))
        try:
            return os.posix_spawnp(
                self.program[0],
                self.program,
                {"PATH": os.environ.get("PATH", os.defpath)} | self.place.environment(),
                file_actions=[(os.POSIX_SPAWN_DUP2, end, number) for end, number in ends],
                setsid=True,
                setsigdef=IGNORED_BY_PYTHON,
            )
        except FileNotFoundError as error:
            raise NoProgram(
                f"{self.program[0]} is not installed: it comes with the NVIDIA driver's compute"
                " utilities"
            ) from error
        except PermissionError as error:
            raise NotPermitted(f"{self.program[0]} may not be run by this user") from error
        finally:
            os.close(question)

    def _kill(self, pid: int) -> None:
        """With whatever it started. One that the kernel holds on to is reaped later."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if _ended(pid, time.monotonic() + REAP_S) is None:
            self._unreaped.append(pid)


def _written(command: str) -> int:
    """The reading end of a pipe that holds the command; it fits, so nobody waits."""
    reading, writing = os.pipe()
    os.write(writing, command.encode() + b"\n")
    os.close(writing)
    return reading


def _read(answer: int, command: str, deadline: float) -> bytes:
    """All until the last writer is gone. Raises TooLate, and BadAnswer past the bound."""
    heard = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(answer, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(answer, 1 << 16)
            heard += piece
            if not piece:
                return bytes(heard)
            if len(heard) > MAX_ANSWER_BYTES:
                raise BadAnswer(f"the answer to {command!r} is over {MAX_ANSWER_BYTES} bytes")
    raise _too_late(command)


def _status(pid: int, command: str, deadline: float) -> int:
    code = _ended(pid, deadline)
    if code is None:
        raise _too_late(command)
    return code


def _ended(pid: int, deadline: float) -> int | None:
    """Its exit status, negative for a signal; None while it lives."""
    pause_s = FIRST_PAUSE_S
    while (code := _reaped(pid)) is None and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return code


def _reaped(pid: int) -> int | None:
    """As `_ended`, without waiting."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _too_late(command: str) -> TooLate:
    return TooLate(f"the MPS control daemon gave no answer to {command!r} in time")


def _failure(command: str, code: int, text: str) -> ControlFailed:
    lower = text.lower()
    if "permission" in lower or "not permitted" in lower or "credentials" in lower:
        return NotPermitted(f"the MPS control daemon does not listen to this user: {quoted(text)}")
    if "cannot find" in lower or "connect" in lower or "daemon" in lower:
        return NoDaemon(f"no MPS control daemon answers: {quoted(text)}")
    return ControlFailed(f"{command!r} ended with status {code}: {quoted(text)}")
