"""Subtrees of control groups for tests: the kernel's own, or a folder that stands in for one."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from agents.actuators import cgroup

GIB = 1 << 30
FILES = {
    "memory.current": f"{3 * GIB}\n",
    "memory.stat": f"anon {2 * GIB}\ninactive_file {GIB}\n",
    "memory.events": "low 0\nhigh 7\nmax 0\noom 0\noom_kill 0\n",
    "memory.pressure": "some avg10=12.00 avg60=0.00 avg300=0.00 total=0\n"
    "full avg10=4.50 avg60=0.00 avg300=0.00 total=0\n",
    "cgroup.events": "populated 1\nfrozen 0\n",
}


def stand_in(folder: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    folder.mkdir()
    (folder / "cgroup.controllers").write_text(f"{controllers}\n")
    (folder / "cgroup.procs").write_text("")
    return folder


def fill(group: Path, **files: str) -> None:
    """As the kernel would; `memory_events="oom_kill 1"` takes the place of one file."""
    told = FILES | {name.replace("_", ".", 1): text for name, text in files.items()}
    for name, text in told.items():
        (group / name).write_text(text)


@contextlib.contextmanager
def kernels():
    """A group of the kernel's, None where this user may make none."""
    mounted = cgroup.mount()
    path = None if mounted is None else mounted / f"muxflow-test-{os.getpid()}"
    try:
        if path is not None:
            path.mkdir()
    except OSError:
        path = None
    yield path
    if path is not None:
        path.rmdir()


def remove_stand_in(path: Path) -> None:
    """The kernel takes a group's own files along, and refuses one with processes."""
    if "populated 1" in (path / "cgroup.events").read_text():
        raise OSError(16, "Device or resource busy")
    shutil.rmtree(path)
