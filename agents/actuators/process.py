"""Jobs as plain child processes, each under a supervisor that outlives the agent.

The contract with a job, all of it optional for the job:

* `MUXFLOW_PROGRESS` names a file it may replace at will with JSON
  {"work_done_s", "saved_work_s", "progress", "throughput", "step_s"} (GPU-seconds; 0..1; 0..1; s);
* TERM asks it to save its work at its next step boundary and to exit;
* `MUXFLOW_RESUME_WORK_S` is the saved work it should go on from.

Where the kernel offers control groups each job has one, and is stopped before its host memory runs
out; elsewhere the host's own memory is watched.

Where the node has libxcuda.so it is preloaded into every process of the job, which then keeps to
the limits of its control block (docs/xcuda.md); without it nothing but MPS limits a job.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from agents import supervisor
from agents.actuators import family, recipe, reins, statement
from agents.actuators.base import Capability, Clients, Condition, JobFacts, Limits, StartFailed
from agents.actuators.lodging import Lodgings
from agents.actuators.recipe import ProcessSettings
from agents.actuators.statement import Statement
from agents.actuators.xcuda import Leash, Leashes, XcudaSettings
from agents.control_block import BlockError
from agents.mps import client
from agents.wire import limits as bounds
from agents.wire.messages import DesiredPlacement
from agents.wire.names import Phase, RuntimeKind


class Progress(msgspec.Struct, frozen=True):
    """What a job tells about itself."""

    work_done_s: float | None = None
    saved_work_s: float | None = None
    progress: float | None = None
    throughput: float | None = None
    step_s: float | None = None


# A job may write anything there, or nothing to the point.
PROGRESS_BYTES: Final = 64 << 10
UNDER_XCUDA: Final = frozenset({Capability.FREEZE, Capability.DUTY, Capability.MEMORY_QUOTA})
UNDER_MPS: Final = frozenset({Capability.SM_SHARE, Capability.TERMINATE_CLIENT})


class ProcessRuntime:
    """Real child processes. There is no freeze, no duty and no quota without xCUDA, and no SM
    share without MPS."""

    kind = RuntimeKind.PROCESS

    def __init__(
        self,
        settings: ProcessSettings,
        gpu_uuids: Mapping[int, str],
        clients: Clients | None = None,
    ) -> None:
        """`clients`: the MPS control daemons of this node, None where there are none."""
        self._settings, self._gpu_uuids, self._clients = settings, gpu_uuids, clients
        self._leashes = (
            None if settings.xcuda is None else Leashes(_hurried(settings.xcuda, settings))
        )
        self.capabilities: frozenset[Capability] = (
            UNDER_XCUDA if self._leashes is not None else frozenset()
        ) | (UNDER_MPS if clients is not None else frozenset())
        self._placements: dict[str, DesiredPlacement] = {}
        self._supervisors: dict[str, int] = {}
        self._progress: dict[str, Progress] = {}
        # What supervisors wrote of the start; they write it once.
        self._begun: dict[str, dict[str, Any]] = {}
        # When the agent first looked after SIGTERM, and whom that had not reached some time later.
        self._signalled: dict[str, float | None] = {}
        self._deaf: dict[str, frozenset[int]] = {}
        self._lodgings = Lodgings(settings.groups, settings.memory_bytes)

    def start(self, placement: DesiredPlacement) -> None:
        command = placement.command or self._settings.default_command
        if not command:
            raise StartFailed(
                f"job {placement.job_name} has no command, and this node runs processes:"
                " give the job a command, or the agent a --default-command"
            )
        try:
            directory = recipe.make_folder(self._settings, placement.placement_id)
            supervisor.write_durably(directory / "spec.json", dict(self._spec(placement, command)))
            self._supervisors[placement.placement_id] = self._launch(directory)
        except OSError as error:
            where = self._directory(placement.placement_id)
            raise StartFailed(f"cannot start a supervisor in {where}: {error}") from error
        except (BlockError, ValueError) as error:
            raise StartFailed(str(error)) from error
        self._placements[placement.placement_id] = placement

    def adopt(self, placement: DesiredPlacement) -> None:
        """Closes the directory to a supervisor that is only now on its way, unless one holds it."""
        directory = self._directory(placement.placement_id)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._placements[placement.placement_id] = placement
        self._lodgings.adopt(placement.placement_id, _cgroup(directory))
        if self._leashes is not None:
            self._leashes.adopt(placement, directory)
        with (directory / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if not (directory / "exit.json").exists():
                supervisor.write_durably(directory / "exit.json", _found_dead(directory))

    def observe(self, placement_id: str, now: float) -> JobFacts:
        if self._lodgings.is_due(now):
            self._lodgings.look(self._roots(), now)
        directory = self._directory(placement_id)
        started = self._started(placement_id, directory)
        watched = self._watched(placement_id, directory, started)
        # Read after the supervisor was seen dead, so that its last word is not missed.
        ended = _read(directory / "exit.json")
        if ended is not None:
            return self._told(self._ended(ended, placement_id), placement_id, now)
        if started is None:
            return self._with_supervisor(_not_yet(directory, watched), placement_id)
        inhabited = watched or _held(directory) or self._lodgings.is_inhabited(placement_id)
        if not inhabited:
            return JobFacts(Condition.VANISHED, why="its supervisor is gone with no exit status")
        if self._leashes is not None:
            root_pid = started["supervisor_pid" if watched else "pid"]
            self._leashes.look_for_others(placement_id, root_pid, self._known_to_mps(), now)
        self._look_for_deaf(placement_id, started, now)
        alive = self._alive(started, placement_id, unattended=not watched)
        return self._told(alive, placement_id, now)

    def _started(self, placement_id: str, directory: Path) -> dict[str, Any] | None:
        """None until the job has a process."""
        if placement_id not in self._begun:
            told = _read(directory / "started.json")
            if told is None:
                return None
            self._begun[placement_id] = told
        return self._begun[placement_id]

    def _with_supervisor(self, facts: JobFacts, placement_id: str) -> JobFacts:
        """Until the job has a process of its own: whatever comes of its supervisor is the job's,
        and must be nobody else's on the GPU for a moment."""
        pid = self._supervisors.get(placement_id)
        if pid is None or facts.condition is not Condition.STARTING:
            return facts
        return replace(facts, pid=pid, started_ticks=supervisor.start_ticks(pid))

    def limits(self, placement_id: str) -> Limits:
        placement, leash = self._placements.get(placement_id), self._leash(placement_id)
        share = None
        if placement is not None and self._is_mps(placement):
            share = placement.sm_share_percent
        if leash is None or leash.effective is None:
            return Limits(share)
        duty_percent = leash.effective.duty_permille / reins.PERMILLE_PER_PERCENT
        return Limits(share, duty_percent, leash.effective.memory_quota_bytes)

    def launches(self, placement_id: str) -> int | None:
        leash = self._leash(placement_id)
        return None if leash is None else leash.statement.launches

    def statements(self) -> dict[str, tuple[int, Statement]]:
        """The GPU of each job under xCUDA, and what its processes said at the last look."""
        leashes = () if self._leashes is None else self._leashes.items()
        return {
            placement_id: (self._placements[placement_id].gpu_index, leash.statement)
            for placement_id, leash in leashes
            if placement_id in self._placements
        }

    def why_no_room(self) -> str:
        return self._lodgings.why_full()

    def beat(self) -> None:
        if self._leashes is not None:
            self._leashes.beat()

    def set_duty(self, placement_id: str, percent: float) -> None:
        if leash := self._leash(placement_id):
            leash.change(lambda limits: reins.with_duty(limits, percent, told=leash.told))

    def set_memory_quota(self, placement_id: str, memory_quota_bytes: int) -> None:
        if leash := self._leash(placement_id):
            leash.change(lambda limits: reins.with_quota(limits, memory_quota_bytes))

    def freeze(self, placement_id: str) -> None:
        if leash := self._leash(placement_id):
            leash.change(reins.frozen)

    def thaw(self, placement_id: str) -> None:
        if leash := self._leash(placement_id):
            leash.change(lambda limits: reins.thawed(limits, told=leash.told))

    def sigterm(self, placement_id: str, grace_s: float) -> None:
        if leash := self._leash(placement_id):
            leash.tell(grace_s)
        self._signalled.setdefault(placement_id, None)
        self._signal(placement_id, signal.SIGTERM, signal.SIGTERM)

    def gate(self, placement_id: str) -> None:
        """Each process goes the whole way from here: gate, quiesce, release, exit."""
        if leash := self._leash(placement_id):
            leash.change(reins.leaving)

    def quiesce(self, placement_id: str) -> None: ...

    def release(self, placement_id: str) -> None: ...

    def terminate_client(self, placement_id: str) -> None:
        placement, leash = self._placements.get(placement_id), self._leash(placement_id)
        if placement is not None and leash is not None and self._is_mps(placement):
            uuid = self._gpu_uuids[placement.gpu_index]
            if self._clients is not None:
                self._clients.terminate_client(uuid, leash.pids)

    def kill(self, placement_id: str) -> None:
        self._signal(placement_id, signal.SIGQUIT, signal.SIGKILL)
        self._lodgings.kill(placement_id)

    def forget(self, placement_id: str) -> None:
        launched = self._supervisors.pop(placement_id, None)
        if launched is not None:
            os.waitpid(launched, os.WNOHANG)
        self._progress.pop(placement_id, None)
        self._begun.pop(placement_id, None)
        self._placements.pop(placement_id, None)
        self._lodgings.adopt(placement_id, _cgroup(self._directory(placement_id)))
        self._lodgings.forget(placement_id)
        self._signalled.pop(placement_id, None)
        self._deaf.pop(placement_id, None)
        if self._leashes is not None:
            self._leashes.forget(placement_id)
        shutil.rmtree(self._directory(placement_id), ignore_errors=True)

    def _directory(self, placement_id: str) -> Path:
        return self._settings.folder(placement_id)

    def _leash(self, placement_id: str) -> Leash | None:
        return None if self._leashes is None else self._leashes.get(placement_id)

    def _is_mps(self, placement: DesiredPlacement) -> bool:
        uuid = self._gpu_uuids[placement.gpu_index]
        return self._clients is not None and uuid in self._clients

    def _known_to_mps(self) -> frozenset[int]:
        if self._clients is None:
            return frozenset()
        return frozenset().union(*self._clients.client_pids().values())

    def _spec(self, placement: DesiredPlacement, command: tuple[str, ...]) -> supervisor.Spec:
        """Raises OSError for a group, BlockError, and ValueError for limits of MPS."""
        visible = {"CUDA_VISIBLE_DEVICES": self._gpu_uuids[placement.gpu_index]}
        environment = visible | self._mps(placement) | self._xcuda(placement)
        group = self._lodgings.create(placement.placement_id)
        return recipe.spec(self._settings, placement, command, environment, group)

    def _mps(self, placement: DesiredPlacement) -> dict[str, str]:
        """Raises ValueError for limits that no client can be started with."""
        if self._clients is None or not self._is_mps(placement):
            return {}
        place = self._clients.place(self._gpu_uuids[placement.gpu_index])
        limits = client.ClientLimits(placement.sm_share_percent, placement.memory_quota_bytes)
        return client.environment(place, limits)

    def _xcuda(self, placement: DesiredPlacement) -> dict[str, str]:
        """Raises BlockError."""
        if self._leashes is None:
            return {}
        user = self._settings.user
        directory = self._directory(placement.placement_id)
        return self._leashes.create(placement, directory, None if user is None else user.uid)

    def _roots(self) -> dict[str, int | None]:
        """The first process of each job that has not ended."""
        folders = {one: self._directory(one) for one in self._placements}
        lasting = {one: it for one, it in folders.items() if not (it / "exit.json").exists()}
        told = {one: _read(folder / "started.json") for one, folder in lasting.items()}
        return {one: None if it is None else it["supervisor_pid"] for one, it in told.items()}

    def _launch(self, directory: Path) -> int:
        lifeline = self._settings.lifeline_fd
        extra = () if lifeline is None else ("--lifeline-fd", str(lifeline))
        if lifeline is not None:
            os.set_inheritable(lifeline, True)
        log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", supervisor.__file__, str(directory), *extra],
                {"PATH": os.environ.get("PATH", os.defpath)},
                file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
                setsid=True,
            )
        finally:
            os.close(log)

    def _watched(self, placement_id: str, directory: Path, started: dict[str, Any] | None) -> bool:
        """Whether its supervisor lives. One that we launched is our child until it is reaped."""
        pid = self._supervisors.get(placement_id)
        if pid is None:
            return _supervised(directory, started)
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            return True
        del self._supervisors[placement_id]
        return False

    def _ended(self, ended: dict[str, Any], placement_id: str) -> JobFacts:
        killed = self._lodgings.leave(placement_id)
        if ended["code"] is None:
            condition = Condition.VANISHED if ended["ran"] else Condition.NEVER_RAN
            return JobFacts(condition, why=ended["why"])
        facts = JobFacts(
            Condition.EXITED,
            exit_code=ended["code"],
            why=killed or ended["why"],
            remarks=(killed,) if killed else (),
        )
        return self._with_progress(facts, placement_id)

    def _alive(self, started: dict[str, Any], placement_id: str, *, unattended: bool) -> JobFacts:
        facts = JobFacts(
            Condition.ALIVE,
            pid=started["pid"],
            unattended=unattended,
            started_ticks=started["pid_ticks"],
            host_memory_short=self._lodgings.why_leave(placement_id),
            cgroup=self._lodgings.cgroup(placement_id),
        )
        return self._with_progress(facts, placement_id)

    def _look_for_deaf(self, placement_id: str, started: dict[str, Any], now: float) -> None:
        """Once, some time after SIGTERM. Under xCUDA each process tells by itself."""
        is_known = placement_id not in self._signalled or placement_id in self._deaf
        if is_known or self._leash(placement_id) is not None:
            return
        told_at = self._signalled[placement_id]
        self._signalled[placement_id] = told_at = now if told_at is None else told_at
        if now - told_at >= statement.SIGNAL_S:
            below = family.descendants(started["supervisor_pid"], family.children())
            self._deaf[placement_id] = family.deaf(below | {started["pid"]}, started["pid"])

    def _told(self, facts: JobFacts, placement_id: str, now: float) -> JobFacts:
        """With what the processes of the job say in its control block."""
        leash = self._leash(placement_id)
        if leash is None:
            if deaf := self._deaf.get(placement_id):
                facts = replace(facts, remarks=(*facts.remarks, statement.unreached(deaf)))
            why = "" if self._leashes is None else self._leashes.why_unlimited(placement_id, now)
            return replace(facts, unlimited=why)
        leash.look(now)
        told, known = leash.statement, not leash.broken
        gone = facts.condition is not Condition.ALIVE
        return replace(
            facts,
            memory_bytes=told.charged_bytes,
            checkpointed=facts.checkpointed or (facts.unsaved_work_s is None and leash.saved),
            gated=known and told.passed(Phase.GATED, gone=gone),
            quiesced=known and told.passed(Phase.QUIESCED, gone=gone),
            released=known and told.passed(Phase.RELEASED, gone=gone),
            frozen=reins.is_frozen(leash.limits),
            pids=told.pids,
            coverage=leash.handshake.coverage(told.pids),
            unlimited=self._leashes.why_unlimited(placement_id, now) if self._leashes else "",
            remarks=facts.remarks + leash.remarks,
        )

    def _with_progress(self, facts: JobFacts, placement_id: str) -> JobFacts:
        told = self._read_progress(placement_id)
        done, saved = told.work_done_s, told.saved_work_s
        unsaved = None if done is None or saved is None else max(0.0, done - saved)
        return replace(
            facts,
            progress=told.progress,
            work_done_s=done,
            unsaved_work_s=unsaved,
            normalised_throughput=told.throughput,
            step_s=told.step_s,
            checkpointed=placement_id in self._signalled and unsaved == 0.0,
        )

    def _read_progress(self, placement_id: str) -> Progress:
        """The last thing the job told that could be read; it may tell nonsense, or nothing."""
        path = self._directory(placement_id) / recipe.OWN / "progress.json"
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._progress[placement_id] = msgspec.json.decode(_read_own(path), type=Progress)
        return self._progress.get(placement_id, Progress())

    def _signal(self, placement_id: str, to_supervisor: int, to_group: int) -> None:
        """Through the supervisor, which cannot mistake another process for its child; to the
        group itself only when the supervisor is dead and the job still holds its lock."""
        directory = self._directory(placement_id)
        started = self._started(placement_id, directory)
        with contextlib.suppress(ProcessLookupError):
            if self._watched(placement_id, directory, started):
                launched = self._supervisors.get(placement_id)
                pid = launched if launched or started is None else started["supervisor_pid"]
                if pid is not None:
                    os.kill(pid, to_supervisor)
            elif started is not None and _held(directory):
                os.killpg(started["pid"], to_group)


def _hurried(xcuda: XcudaSettings, settings: ProcessSettings) -> XcudaSettings:
    """Where the end of a lifeline kills a job, its window must have ended before."""
    if settings.lifeline_fd is None:
        return xcuda
    left_s = settings.lifeline_grace_s - bounds.QUIESCE_S - reins.WINDOW_MARGIN_S
    return replace(xcuda, grace_s=max(0.0, min(xcuda.grace_s, left_s)))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return content


def _cgroup(directory: Path) -> str | None:
    """Where the job was started in, whatever the settings say by now."""
    spec = _read(directory / "spec.json") or {}
    path: str | None = spec.get("cgroup")
    return path


def _read_own(path: Path) -> bytes:
    """A small file of the job's own: neither a link to another nor a pipe that holds us up. Raises
    OSError."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(file, PROGRESS_BYTES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)


def _supervised(directory: Path, started: dict[str, Any] | None) -> bool:
    """Whether a supervisor lives: known by pid and start time, else by the lock it holds."""
    if started is None:
        return _held(directory)
    ticks = supervisor.start_ticks(started["supervisor_pid"])
    return ticks is not None and ticks == started["supervisor_ticks"]


def _held(directory: Path) -> bool:
    """Whether a process of the job lives. Sharing the lock for an instant turns nobody away
    who is entitled to it: only this agent starts supervisors, and none is on its way now."""
    try:
        with (directory / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _not_yet(directory: Path, watched: bool) -> JobFacts:
    if watched or _held(directory):
        return JobFacts(Condition.STARTING)
    if (directory / "claimed").exists():
        return JobFacts(Condition.VANISHED, why="its supervisor died while it started the job")
    return JobFacts(Condition.NEVER_RAN, why="its supervisor ended before it could start the job")


def _found_dead(directory: Path) -> dict[str, Any]:
    ran = (directory / "claimed").exists()
    why = "gone when the agent came back" if ran else "the agent died before it could start the job"
    return {"code": None, "ran": ran, "why": why, "at": None}
