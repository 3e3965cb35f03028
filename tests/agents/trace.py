"""What a process and its threads and children asked the kernel for, by strace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import debian

# With `?` where a processor may not have it: a newer form does the same there.
CHANGES_PATHS = (
    "?creat,?rename,?renameat,renameat2,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,?mknod,mknodat,?link,"
    "linkat,?symlink,symlinkat,?chmod,fchmodat,?fchmodat2,?chown,?lchown,fchownat,truncate,?utime,"
    "?utimes,?futimesat,utimensat,setxattr,lsetxattr,removexattr,lremovexattr"
)
CHANGES_FILES = "fchmod,fchown,ftruncate,fallocate,fsetxattr,fremovexattr"
OPENS = "?open,openat,openat2"
# What reaches other processes, the machine, or a device.
REACHES_OUT = (
    "kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal,pidfd_getfd,ptrace,"
    "process_vm_writev,process_madvise,setns,unshare,mount,umount2,move_mount,pivot_root,chroot,"
    "sched_setaffinity,sched_setscheduler,sched_setparam,sched_setattr,setpriority,ioprio_set,bpf,"
    "perf_event_open,init_module,finit_module,reboot,sethostname,settimeofday,clock_settime,swapon,"
    "quotactl,keyctl,?setrlimit"
)
BEGINS = "execve,execveat,?fork,?vfork,clone,clone3"
WATCHED = ",".join(
    (CHANGES_PATHS, CHANGES_FILES, OPENS, REACHES_OUT, BEGINS, "ioctl,prlimit64,bind")
)

LINE = re.compile(r"^\d+ +(?P<call>\w+)\((?P<arguments>.*)$", re.M)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
OPENED = re.compile(r"<(/[^>]*)>")
WRITES = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)")


def strace() -> str:
    """The program. Skips where there is none, or where the kernel lets nobody trace."""
    if not shutil.which("strace"):
        debian.install("strace")
    found = shutil.which("strace")
    if found is None:
        pytest.skip("trace: no strace (Debian, Ubuntu: apt install strace)")
    tried = subprocess.run([found, "-f", "-o", "/dev/null", "true"], capture_output=True)
    if tried.returncode != 0:
        why = tried.stderr.decode(errors="replace").strip()
        pytest.skip(f"trace: this machine lets nobody trace a process: {why}")
    return found


@dataclass(frozen=True)
class Call:
    """One call as it began; `arguments` as strace writes them, descriptors with their paths."""

    name: str
    arguments: str

    @property
    def paths(self) -> list[str]:
        """The files that it changes, or may change from then on."""
        if self.name in _names(OPENS):
            return QUOTED.findall(self.arguments)[:1] if WRITES.search(self.arguments) else []
        if self.name in _names(CHANGES_PATHS):
            return QUOTED.findall(self.arguments)
        if self.name in _names(CHANGES_FILES):
            return OPENED.findall(self.arguments)[:1]
        if self.name == "bind":
            return re.findall(r'sun_path="([^"]*)"', self.arguments)
        return []

    @property
    def starts(self) -> bool:
        """Whether it begins another process or program; a thread is neither."""
        return self.name in _names(BEGINS) and "CLONE_THREAD" not in self.arguments

    @property
    def reaches_out(self) -> bool:
        if self.name == "ioctl":  # of a device, unless it is one of its three standard streams
            return bool(re.match(r"(?![012]<)\d+</dev/", self.arguments))
        if self.name == "prlimit64":  # without a new limit it only asks
            return self.arguments.split(", ")[2] != "NULL"
        return self.name in _names(REACHES_OUT)


def _names(calls: str) -> set[str]:
    return {name.lstrip("?") for name in calls.split(",")}


@contextmanager
def traced(
    command: Sequence[str | Path], log: Path, **how: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The running tracer. It ends with the process; killing it ends that too."""
    options = ("-f", "-qq", "-y", "-s", "4096", "-o", log, "-e", f"trace={WATCHED}")
    process = subprocess.Popen([strace(), *options, *command], **how)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def calls(log: Path, programs: int = 1) -> list[Call]:
    """Of the last of so many programs that the traced process became one after the other."""
    text = log.read_text(errors="replace")
    found = [Call(line["call"], line["arguments"]) for line in LINE.finditer(text)]
    began = [number for number, call in enumerate(found) if call.name == "execve"]
    return found[began[programs - 1] + 1 :]


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Python's cache of compiled modules is made when a package is installed, not by the agent."""
    return {**own, "PYTHONDONTWRITEBYTECODE": "1"}
