"""One tiny parent per job: lock, log file, durable exit status.

Runs as a file with the standard library alone, so it starts in tens of milliseconds and imports
nothing that an upgrade of the agent could change under it. It outlives the agent: the next agent
finds the job in its directory and adopts it.

    supervisor.py DIRECTORY [--lifeline-fd N]

DIRECTORY holds `spec.json` (see `Spec`) and receives, in this order:

    lock          held exclusively by the supervisor and every process of the job, while one lives
    claimed       written before the spawn: a directory that holds it is never run again
    started.json  {pid, pid_ticks, supervisor_pid, supervisor_ticks, at}
    exit.json     {code, at, why}; code is negative for a signal, None when the job never ran
    log, log.1    what the job wrote, at most `log_bytes` in each

Signals: TERM is handed on to the job's process group; QUIT kills it. What lives on when the first
process of the job has ended gets TERM, `straggler_grace_s`, then KILL. At the end of file of the
lifeline (the launcher died, however it died) the job gets TERM, `lifeline_grace_s`, then KILL.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, TypedDict

ALREADY_RUN: Final = 75
LOG_BYTES: Final = 16 << 20
LOG_CHECK_S: Final = 2.0
KILL_AGAIN_S: Final = 1.0
LOOK_S: Final = 0.02
PR_SET_CHILD_SUBREAPER: Final = 36
HANDED_ON: Final[dict[int, int]] = {signal.SIGTERM: signal.SIGTERM, signal.SIGQUIT: signal.SIGKILL}


class Spec(TypedDict):
    """What to run. `command` is a list of arguments, `environment` all of the variables.
    `straggler_grace_s` is what processes that the job left behind have to end by themselves."""

    command: list[str]
    environment: dict[str, str]
    working_directory: str
    lifeline_grace_s: float
    straggler_grace_s: float
    log_bytes: int


class AlreadyRun(RuntimeError):
    """This directory's job runs, or has run: it is never run twice."""


def main(arguments: list[str]) -> int:
    directory = Path(arguments[0])
    lifeline = int(arguments[2]) if arguments[1:2] == ["--lifeline-fd"] else None
    try:
        lock = claim(directory)
    except AlreadyRun as refusal:
        sys.stderr.write(f"supervisor: {refusal}\n")
        return ALREADY_RUN
    Supervision(directory, lock, lifeline).run()
    return 0


def claim(directory: Path) -> int:
    """The descriptor of the held lock, once nobody else can run this. Raises AlreadyRun."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise AlreadyRun(f"a process of {directory.name} is alive and holds its lock") from None
    if (directory / "claimed").exists() or (directory / "exit.json").exists():
        os.close(lock)
        raise AlreadyRun(f"{directory.name} has run before")
    write_durably(directory / "claimed", {"at": time.time()})
    return lock


class Supervision:
    """The life of one job."""

    def __init__(self, directory: Path, lock: int, lifeline: int | None) -> None:
        self._directory, self._lock, self._lifeline = directory, lock, lifeline
        self._spec: Spec = json.loads((directory / "spec.json").read_text())
        self._pid = 0
        self._early: list[int] = []
        self._kill_at: float | None = None
        self._is_killed = False
        self._wake, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)

    def run(self) -> None:
        _adopt_orphans()
        for caught in (signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(caught, self._on_signal)
        try:
            self._pid = self._spawn()
        except OSError as error:
            command = self._spec["command"][0]
            self._finish(127, f"cannot run {command}: {error.strerror}")
            return
        for number in self._early:
            self._signal_group(number)
        self._write_started()
        code = self._wait()
        self._end_stragglers()
        self._finish(code, "lifeline" if self._kill_at is not None else "exited")

    def _spawn(self) -> int:
        log = os.open(self._directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        # The job keeps the lock as well: while a process of it lives, nobody takes it for gone.
        os.set_inheritable(self._lock, True)
        if self._lifeline is not None:
            os.set_inheritable(self._lifeline, False)
        try:
            os.chdir(self._spec["working_directory"])
            return os.posix_spawnp(
                self._spec["command"][0],
                self._spec["command"],
                self._spec["environment"],
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, nothing, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE],
            )
        finally:
            os.close(log)
            os.close(nothing)

    def _write_started(self) -> None:
        started = {
            "pid": self._pid,
            "pid_ticks": start_ticks(self._pid),
            "supervisor_pid": os.getpid(),
            "supervisor_ticks": start_ticks(os.getpid()),
            "at": time.time(),
        }
        write_durably(self._directory / "started.json", started)

    def _wait(self) -> int:
        """The exit code of the job, waited for through signals and the end of the lifeline."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._lifeline is not None:
            poll.register(self._lifeline, select.POLLIN)
        while True:
            code = self._reap()
            if code is not None:
                return code
            for descriptor, _ in poll.poll(self._patience_s() * 1_000):
                if descriptor == self._wake:
                    os.read(self._wake, 512)
                elif not os.read(descriptor, 512):
                    poll.unregister(descriptor)
                    self._begin_lifeline_stop()
            self._keep_deadline()
            self._bound_log()

    def _reap(self) -> int | None:
        """Collects every child that ended; the job's exit code if it was among them."""
        code = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._pid:
                    code = os.waitstatus_to_exitcode(status)
        return code

    def _patience_s(self) -> float:
        if self._kill_at is None:
            return LOG_CHECK_S
        return max(0.0, min(LOG_CHECK_S, self._kill_at - time.monotonic()))

    def _begin_lifeline_stop(self) -> None:
        self._kill_at = time.monotonic() + self._spec["lifeline_grace_s"]
        self._signal_group(signal.SIGTERM)

    def _keep_deadline(self) -> None:
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal_group(signal.SIGKILL)
            self._kill_at = time.monotonic() + KILL_AGAIN_S

    def _bound_log(self) -> None:
        """Moves a full log aside. The job appends, so cutting the file under it is safe."""
        log = self._directory / "log"
        if log.stat().st_size > self._spec["log_bytes"]:
            shutil.copyfile(log, self._directory / "log.1")
            os.truncate(log, 0)

    def _on_signal(self, number: int, _frame: object) -> None:
        meant = HANDED_ON.get(number)
        self._is_killed |= meant == signal.SIGKILL
        if meant is not None and self._pid:
            self._signal_group(meant)
        elif meant is not None:
            self._early.append(meant)

    def _signal_group(self, number: int) -> None:
        """Called until the leader is reaped and just after: its id is not reused so soon."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, number)

    def _end_stragglers(self) -> None:
        """Ends what the job left behind, also what fled into a session of its own. Under xCUDA it
        is asked first: a client of MPS that is killed may take its neighbours along."""
        self._ask_stragglers()
        self._signal_group(signal.SIGKILL)
        while children := _children():
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)

    def _ask_stragglers(self) -> None:
        deadline = time.monotonic() + self._spec["straggler_grace_s"]
        asked: set[int] = set()
        while time.monotonic() < deadline and not self._is_killed and (left := _children()):
            for pid in set(left) - asked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            asked.update(left)
            time.sleep(LOOK_S)
            self._reap()

    def _finish(self, code: int, why: str) -> None:
        write_durably(self._directory / "exit.json", {"code": code, "at": time.time(), "why": why})


def write_durably(path: Path, content: dict[str, Any]) -> None:
    """All of it or nothing, and still there after a power cut."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot (proc(5), field 22): with the pid an
    identity that is never reused. None when it is gone or a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on (state, parent, ...); None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()


def _adopt_orphans() -> None:
    """Descendants whose parent died become our children (prctl(2)), and can be ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> list[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    parents = ((pid, _stat(pid)) for pid in pids)
    return [pid for pid, fields in parents if fields and int(fields[1]) == os.getpid()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
