"""What a job is started with: its command, environment, user, group and bounds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents import supervisor
from agents.actuators.cgroup import Groups
from agents.actuators.job_user import JobUser
from agents.actuators.xcuda import XcudaSettings
from agents.wire import limits as bounds
from agents.wire.messages import DesiredPlacement

# What of the agent's own environment a job sees; secrets of the agent are not in it.
INHERITED: Final = ("PATH", "HOME", "LANG", "USER", "TMPDIR", "LD_LIBRARY_PATH")
# Long enough to finish what is in flight on the GPU.
STRAGGLER_GRACE_S: Final = bounds.QUIESCE_S + bounds.RELEASE_S + bounds.EXIT_S
# The one folder in that of its placement that a job may write into.
OWN: Final = "own"


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """How this node runs processes.

    `default_command` runs for a job that brings no command of its own. `lifeline_fd` is the
    reading end of a pipe: when its last writer dies the jobs are stopped with `lifeline_grace_s`.
    `world_clock` is told to the job: seconds of its world in one real second. `xcuda` None: jobs
    run without limits of ours. `user` None: they run as the agent does. `groups` None: nothing
    bounds their host memory; else `memory_bytes` does, of each job. `working_directory` None: the
    agent's own.
    """

    directory: Path
    default_command: tuple[str, ...] = ()
    lifeline_fd: int | None = None
    lifeline_grace_s: float = 5.0
    log_bytes: int = supervisor.LOG_BYTES
    world_clock: float = 1.0
    xcuda: XcudaSettings | None = None
    user: JobUser | None = None
    working_directory: Path | None = None
    groups: Groups | None = None
    memory_bytes: int = 0

    @property
    def job_uid(self) -> int:
        """Whose processes jobs are."""
        return os.geteuid() if self.user is None else self.user.uid

    def folder(self, placement_id: str) -> Path:
        return self.directory / placement_id


def make_folder(settings: ProcessSettings, placement_id: str) -> Path:
    """The folder of a placement: the agent's, but for the part that is the job's own."""
    folder = settings.folder(placement_id)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = folder / OWN
    own.mkdir(exist_ok=True, mode=0o700)
    if settings.user is not None:
        folder.chmod(0o711)
        os.chown(own, settings.user.uid, settings.user.gid)
    return folder


def spec(
    settings: ProcessSettings,
    placement: DesiredPlacement,
    command: tuple[str, ...],
    environment: Mapping[str, str],
    cgroup: Path | None,
) -> supervisor.Spec:
    """`environment` is what the runtime adds."""
    told = _environment(settings, placement)
    return {
        "command": list(command),
        "environment": told | dict(environment),
        "working_directory": str(settings.working_directory or Path.cwd()),
        "lifeline_grace_s": settings.lifeline_grace_s,
        "straggler_grace_s": 0.0 if settings.xcuda is None else STRAGGLER_GRACE_S,
        "log_bytes": settings.log_bytes,
        "cgroup": None if cgroup is None else str(cgroup),
        "user": None if settings.user is None else _user(settings.user),
    }


def _environment(settings: ProcessSettings, placement: DesiredPlacement) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own = settings.folder(placement.placement_id) / OWN
    told = {
        "MUXFLOW_PLACEMENT_ID": placement.placement_id,
        "MUXFLOW_JOB": placement.job_name,
        "MUXFLOW_PROGRESS": str(own / "progress.json"),
        "MUXFLOW_WORK_S": str(placement.profile.work_s),
        "MUXFLOW_RESUME_WORK_S": str(placement.resume_work_s),
        "MUXFLOW_WORLD_CLOCK": str(settings.world_clock),
    }
    return inherited | ({} if settings.user is None else settings.user.environment()) | told


def _user(user: JobUser) -> supervisor.User:
    return {"uid": user.uid, "gid": user.gid, "groups": list(user.groups)}
