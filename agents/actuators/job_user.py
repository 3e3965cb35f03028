"""Whom jobs run as, and what such a user must be able to reach."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from agents.config import CannotRun


@dataclass(frozen=True, slots=True)
class JobUser:
    """A user of this machine, with all of its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def environment(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def look_up(name: str) -> JobUser:
    """Raises CannotRun for one that is not there, or that this agent may not become."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise CannotRun(f"job_user: there is no user {name} on this machine") from None
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    if os.geteuid() not in (0, found.pw_uid):
        raise CannotRun(f"job_user: only an agent that runs as root may run jobs as {name}")
    return JobUser(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)


def open_way(directory: Path, user: JobUser) -> None:
    """Lets the user pass through the agent's own folder to `directory` below it, and read nothing
    there. Raises CannotRun when a folder above is closed to it."""
    state_dir = directory.parent
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for entry in state_dir.iterdir():
        if entry.is_file() and not entry.is_symlink():
            entry.chmod(stat.S_IMODE(entry.stat().st_mode) & ~0o077)
    for folder in (state_dir, directory):
        folder.chmod(0o711)
    for folder in state_dir.absolute().parents:
        if not _may_pass(folder.stat(), user):
            raise CannotRun(
                f"user {user.name} cannot reach {directory}: {folder} is closed to it. Open it"
                f" (chmod o+x {folder}), or put state_dir elsewhere"
            )


def _may_pass(folder: os.stat_result, user: JobUser) -> bool:
    if folder.st_uid == user.uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid in user.groups:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)
