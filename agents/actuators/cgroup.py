"""One control group (version 2, cgroups(7)) for each job: what the host gives it, and what it says
of the memory that the job takes.

A group outlives the agent like the job in it; the next agent finds it by its path. Everything here
is reading and writing small files, so a folder can stand in for the kernel's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from errno import EACCES, EBUSY
from functools import cache
from pathlib import Path
from typing import Final

from agents import kernel_files
from agents.actuators.pressure import GroupMemory

log = logging.getLogger(__name__)

# What the unit's DelegateSubgroup= names: the agent lives there, jobs in groups beside it. A group
# with processes of its own can give none of its controllers on.
AGENT_GROUP: Final = "agent"
PREFIX: Final = "job-"
WANTED: Final = ("memory", "cpu")
# Reclaim and delays begin here, so that there is time to stop the job before the limit kills it.
HIGH_PERCENT: Final = 90
LEAST_WEIGHT: Final = 1


class NoGroups(RuntimeError):
    """This node's jobs run without groups; the text says why, and what to do."""


class Group:
    """The group of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> GroupMemory | None:
        """None where its memory is not counted, or when it is gone."""
        held = _number(self.path / "memory.current")
        if held is None:
            return None
        idle = dict(_pairs(self.path / "memory.stat")).get("inactive_file", 0)
        return GroupMemory(
            max(0, held - idle),
            _number(self.path / "memory.high"),
            _number(self.path / "memory.max"),
            stalled_percent(self.path / "memory.pressure"),
            dict(_pairs(self.path / "memory.events")).get("oom_kill", 0),
        )

    @property
    def populated(self) -> bool:
        """Whether a process lives in it."""
        return dict(_pairs(self.path / "cgroup.events")).get("populated", 0) > 0

    def kill(self) -> None:
        """Everything in it, with SIGKILL."""
        _write(self.path / "cgroup.kill", "1")

    def remove(self) -> bool:
        """False while a process lives in it."""
        try:
            self.path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class Groups:
    """The subtree in which this agent may make groups."""

    def __init__(self, root: Path) -> None:
        """Writes nothing before the first job. What is `lacking` of the controllers is lacking of
        the limits. Raises NoGroups."""
        self.root = root
        try:
            offered = (root / "cgroup.controllers").read_text().split()
            if not os.access(root, os.W_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
            if (root / "cgroup.procs").read_text():
                raise OSError(EBUSY, os.strerror(EBUSY))
        except OSError as error:
            raise NoGroups(
                f"no groups for jobs can be made in {root} ({error.strerror}): it must be a group"
                " of version 2 that is delegated to this agent, without processes of its own"
            ) from error
        self.lacking = tuple(name for name in WANTED if name not in offered)

    def create(self, placement_id: str, memory_bytes: int) -> Group:
        """Raises OSError."""
        if given := [f"+{name}" for name in WANTED if name not in self.lacking]:
            (self.root / "cgroup.subtree_control").write_text(" ".join(given))
        group = self.group(placement_id)
        group.path.mkdir(exist_ok=True)
        if "memory" not in self.lacking:
            (group.path / "memory.high").write_text(str(memory_bytes * HIGH_PERCENT // 100))
            (group.path / "memory.max").write_text(str(memory_bytes))
        if "cpu" not in self.lacking:
            (group.path / "cpu.weight").write_text(str(LEAST_WEIGHT))
        return group

    def group(self, placement_id: str) -> Group:
        """Whether or not it is there."""
        return Group(self.root / f"{PREFIX}{placement_id}")


def delegated(proc: Path = Path("/proc/self")) -> Path:
    """The subtree that systemd gave to this agent. Raises NoGroups."""
    refusal = (
        "no control group is delegated to this agent: run it by its unit (DelegateSubgroup= needs"
        " systemd 254), or name one in cgroup_root"
    )
    own = own_group(proc)
    if own is None or own.name != AGENT_GROUP:
        raise NoGroups(refusal)
    return own.parent


def own_group(proc: Path = Path("/proc/self")) -> Path | None:
    """Where this process is in the hierarchy of version 2, None where there is none."""
    lines = (proc / "cgroup").read_text().splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    mounted = mount(proc)
    return None if path is None or mounted is None else mounted / path.lstrip("/")


@cache
def mount(proc: Path = Path("/proc/self")) -> Path | None:
    """Where the hierarchy of version 2 is; proc(5), mountinfo."""
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    return None


def named(group: Group) -> str:
    """As /proc/PID/cgroup names it; "" for a folder that only stands in for one."""
    mounted = mount()
    if mounted is None or not group.path.is_relative_to(mounted):
        return ""
    return f"/{group.path.relative_to(mounted)}"


def stalled_percent(file: Path) -> float | None:
    """Of the last 10 s in which everything stood still for memory; the kernel's pressure stall
    information, `full avg10`. None where it is not kept."""
    try:
        full = kernel_files.read(str(file)).partition("full avg10=")[2]
        return float(full.split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return None


def _number(file: Path) -> int | None:
    """None for `max`, and for a file that is not there."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _pairs(file: Path) -> Iterator[tuple[str, int]]:
    """`name number`, one a line."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, number = line.partition(" ")
        if number.isdecimal():
            yield name, int(number)


def _write(file: Path, text: str) -> None:
    """Into a group that may just have gone."""
    try:
        file.write_text(text)
    except OSError as error:
        log.debug("%s: %s", file, error)
