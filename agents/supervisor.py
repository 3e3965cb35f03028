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
    log, log.1    what the job wrote, about `log_bytes` in each; older lines are dropped

The job runs in the cgroup and as the user that `spec.json` names. The supervisor stays outside of
both: it is there to see when the kernel kills the job for memory.

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
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, TypedDict

ALREADY_RUN: Final = 75
LOG_BYTES: Final = 16 << 20
LOG_CHECK_S: Final = 2.0
KILL_AGAIN_S: Final = 1.0
LOOK_S: Final = 0.02
PR_SET_CHILD_SUBREAPER: Final = 36
FALLOC_FL_COLLAPSE_RANGE: Final = 0x08
CANNOT_RUN: Final = 127
OOM_SCORE: Final = "800"
COPY_BYTES: Final = 1 << 20
HANDED_ON: Final[dict[int, int]] = {signal.SIGTERM: signal.SIGTERM, signal.SIGQUIT: signal.SIGKILL}


class User(TypedDict):
    """Whom the job runs as; all of the groups."""

    uid: int
    gid: int
    groups: list[int]


class Spec(TypedDict):
    """What to run. `command` is a list of arguments, `environment` all of the variables.
    `straggler_grace_s` is what processes that the job left behind have to end by themselves.
    `cgroup` is the folder of the job's own group; `user` None: as the supervisor."""

    command: list[str]
    environment: dict[str, str]
    working_directory: str
    lifeline_grace_s: float
    straggler_grace_s: float
    log_bytes: int
    cgroup: str | None
    user: User | None


class AlreadyRun(RuntimeError):
    """This directory's job runs, or has run: it is never run twice."""


class CannotRun(RuntimeError):
    """The job could not be made a process; the text says what failed, and why."""


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
        except CannotRun as failure:
            self._finish(CANNOT_RUN, str(failure))
            return
        for number in self._early:
            self._signal_group(number)
        self._write_started()
        code = self._wait()
        self._end_stragglers()
        self._finish(code, "lifeline" if self._kill_at is not None else "exited")

    def _spawn(self) -> int:
        """The pid of the job, once it is the job: its command has taken the place of our copy.
        Raises CannotRun."""
        hearing, telling = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_the_job(telling)
        os.close(telling)
        with os.fdopen(hearing) as report:
            failed = report.read()
        if failed:
            os.waitpid(pid, 0)
            raise CannotRun(failed)
        return pid

    def _become_the_job(self, telling: int) -> NoReturn:
        """In the child. `telling` closes when the command runs, or takes what went wrong."""
        for step, take in self._steps():
            try:
                take()
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                os.write(telling, f"cannot {step}: {reason}".encode())
                break
        os._exit(CANNOT_RUN)

    def _steps(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Each with its name, as it reads after "cannot". The group is entered first: whatever
        the job takes is counted; the folder last, with no more rights than the job has."""
        spec = self._spec
        yield "be a session of its own", _start_session
        if spec["cgroup"] is not None:
            yield f"enter the group {spec['cgroup']}", lambda: _enter(Path(str(spec["cgroup"])))
        yield "open its log", self._connect
        if spec["user"] is not None:
            user = spec["user"]
            yield f"run as user {user['uid']}", lambda: _become(user)
        yield f"work in {spec['working_directory']}", lambda: os.chdir(spec["working_directory"])
        command, environment = spec["command"], spec["environment"]
        yield f"run {command[0]}", lambda: os.execvpe(command[0], command, environment)  # noqa: S606

    def _connect(self) -> None:
        """Output goes straight into the file. The job keeps the lock as well: while a process of it
        lives, nobody takes it for gone."""
        log = os.open(self._directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(self._lock, True)
        if self._lifeline is not None:
            os.set_inheritable(self._lifeline, False)

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
        """Moves a full log aside. The job goes on appending all the while.

        Where the file system can take whole blocks from the front of a file (ext4, XFS), no byte
        is lost. Elsewhere the file is cut right after its end was read: what is written between
        these two calls is.
        """
        log = os.open(self._directory / "log", os.O_RDWR)
        try:
            if os.fstat(log).st_size > self._spec["log_bytes"]:
                self._move_aside(log)
        finally:
            os.close(log)

    def _move_aside(self, log: int) -> None:
        block = os.fstatvfs(log).f_bsize
        whole = os.fstat(log).st_size // block * block
        draft = self._directory / "log.1.new"
        with draft.open("wb") as aside:
            _copy(log, aside.fileno(), whole)
            if not (whole and _collapse(log, whole)):
                _copy(log, aside.fileno())
                os.truncate(log, 0)
        draft.rename(self._directory / "log.1")

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


def _start_session() -> None:
    """Of the job, which the kernel takes before any online process when the host runs out of
    memory (proc(5), oom_score_adj); some sandboxes do not let it be said."""
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    for caught in (signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(caught, signal.SIG_DFL)


def _enter(cgroup: Path) -> None:
    """0 stands for whoever writes it (cgroups(7))."""
    (cgroup / "cgroup.procs").write_text("0")


def _become(user: User) -> None:
    os.setgroups(user["groups"])
    os.setgid(user["gid"])
    os.setuid(user["uid"])


def _copy(source: int, target: int, limit: int | None = None) -> None:
    """From where `source` stands to its end, or `limit` bytes."""
    left = limit
    while left is None or left > 0:
        piece = os.read(source, COPY_BYTES if left is None else min(left, COPY_BYTES))
        if not piece:
            return
        os.write(target, piece)
        left = None if left is None else left - len(piece)


def _collapse(file: int, length: int) -> bool:
    """Takes `length` bytes (whole blocks) from the front; fallocate(2). False where it cannot."""
    take = ctypes.CDLL(None).fallocate
    take.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(take(file, FALLOC_FL_COLLAPSE_RANGE, 0, length) == 0)


def write_durably(path: Path, content: dict[str, Any]) -> None:
    """All of it or nothing, and still there after a power cut; its owner alone may read it."""
    fresh = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
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
    """The fields of /proc/PID/stat from the third on (state, parent, ...); None when it is gone.
    A process names itself as it likes, with bytes of its choice."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
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
