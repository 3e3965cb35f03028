"""The control daemon as a unit of its own: never the agent's child, found again by anyone.

A restart, an upgrade and the removal of the agent leave it and its clients alone. On a node with
systemd it is an instance of a template unit; elsewhere (the demo, tests, a container) it is
started detached. Only a person's `muxflow-agent mps enable` starts one, only `disable` ends one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.mps.control import PROGRAM, Control, ControlFailed, NoDaemon, NoProgram, Place
from agents.supervisor import start_ticks

# What a daemon's command line names: NVIDIA's program, or the stand-in for it.
PROGRAMS: Final = frozenset({PROGRAM, "mps_daemon.py"})
START_S: Final = 10.0
END_S: Final = 2.0
LOOK_S: Final = 0.05
MULTIUSER: Final = "-multiuser-server"
# Where a node keeps the daemons' directories, one folder a GPU.
ROOT: Final = Path("/var/lib/muxflow-mps")
UNIT_NAME: Final = "muxflow-mps@.service"
UNIT_DIRECTORIES: Final = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"))
SYSTEMD: Final = Path("/run/systemd/system")

# The instance name is the GPU's UUID. KillMode=mixed ends the server with its daemon. Nothing
# here names the agent: its unit may come, go and fail.
UNIT: Final = """\
[Unit]
Description=NVIDIA MPS control daemon of GPU %i
Documentation=man:nvidia-cuda-mps-control(1)
After=nvidia-persistenced.service

[Service]
Type=exec
Environment=CUDA_VISIBLE_DEVICES=%i
Environment=CUDA_MPS_PIPE_DIRECTORY={root}/%i/pipe
Environment=CUDA_MPS_LOG_DIRECTORY={root}/%i/log
ExecStartPre=/usr/bin/mkdir -p {root}/%i/pipe {root}/%i/log
ExecStart={program} -f{options}
KillMode=mixed
TimeoutStopSec=30
Restart=on-failure
RestartSec=1
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A living control daemon. `ticks`: when it started, so that a PID used again is another."""

    pid: int
    ticks: int
    multiuser: bool


def place_of(gpu_uuid: str, root: Path = ROOT) -> Place:
    """The directories of one GPU's daemon. Raises ValueError for what is not a UUID."""
    if not gpu_uuid or "/" in gpu_uuid or gpu_uuid.startswith("."):
        raise ValueError(f"{gpu_uuid!r} is not the UUID of a GPU")
    return Place(gpu_uuid, root / gpu_uuid / "pipe", root / gpu_uuid / "log")


def unit_file(program: str, root: Path = ROOT, *, multiuser: bool = False) -> str:
    """The systemd template, for /etc/systemd/system/muxflow-mps@.service."""
    return UNIT.format(root=root, program=program, options=f" {MULTIUSER}" if multiuser else "")


def find(place: Place) -> Daemon | None:
    """The daemon of this place, if it lives. A PID file that is left over, or whose PID belongs
    to another program by now, names none."""
    try:
        pid = int(place.pid_file.read_text(errors="replace").strip()[:12])
        words = Path(f"/proc/{pid}/cmdline").read_bytes()[:8192].decode(errors="replace")
    except (OSError, ValueError):
        return None
    ticks = start_ticks(pid)
    arguments = words.split("\0")
    if ticks is None or not PROGRAMS & {Path(word).name for word in arguments}:
        return None
    return Daemon(pid, ticks, MULTIUSER in arguments)


def start_detached(
    place: Place, program: Sequence[str] = (PROGRAM,), *, multiuser: bool = False
) -> Daemon:
    """Starts it in a session of its own, the child of nobody here, or finds it running. Raises
    ControlFailed."""
    if (daemon := find(place)) is not None:
        return daemon
    _leave_nothing_stale(place)
    for directory in (place.pipe_directory, place.log_directory):
        directory.mkdir(parents=True, exist_ok=True)
    _launch(place, program, multiuser=multiuser)
    deadline = time.monotonic() + START_S
    while (daemon := find(place)) is None:
        if time.monotonic() > deadline:
            raise NoDaemon(f"the MPS control daemon did not come up: see {place.control_log}")
        time.sleep(LOOK_S)
    return daemon


def start(place: Place, program: Sequence[str] = (PROGRAM,), *, multiuser: bool = False) -> None:
    """As a unit where systemd knows the template, detached elsewhere. Raises ControlFailed."""
    if is_installed():
        _systemctl("start", place)
    else:
        start_detached(place, program, multiuser=multiuser)


def _leave_nothing_stale(place: Place) -> None:
    """What a daemon that was killed left: its PID may be another process's by now."""
    place.pid_file.unlink(missing_ok=True)


def _launch(place: Place, program: Sequence[str], *, multiuser: bool) -> None:
    """`-d` forks twice by itself and is adopted by init."""
    words = [*program, "-d", *((MULTIUSER,) if multiuser else ())]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "CUDA_VISIBLE_DEVICES": place.gpu_uuid,
        **{name: os.environ[name] for name in STUB_VARIABLES if name in os.environ},
        **place.environment(),
    }
    try:
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=START_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise NoProgram(f"{words[0]} is not installed: it comes with the NVIDIA driver") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ControlFailed(f"{words[0]} could not be started: {error}") from error
    if done.returncode != 0:
        raise ControlFailed(
            f"{words[0]} -d ended with status {done.returncode}: see {place.control_log}"
        )


# What the stand-in for the daemon takes besides; NVIDIA's ignores it.
STUB_VARIABLES: Final = ("STUB_MPS", "STUB_MPS_REPORT")


def stop(control: Control) -> None:
    """Asks it to quit and waits until it is gone. Raises ControlFailed."""
    daemon = find(control.place)
    with contextlib.suppress(NoDaemon):
        control.ask(control.dialect.quit())
    if daemon is not None and not _gone(daemon, START_S):
        raise ControlFailed(f"the MPS control daemon (PID {daemon.pid}) did not quit")


def restart(control: Control, *, multiuser: bool) -> None:
    """Ends a daemon that does not answer, if it lives, and starts one in its place: through
    systemd where it is an instance of the template, detached elsewhere. Raises ControlFailed."""
    if is_installed():
        _systemctl("restart", control.place)
        return
    daemon = find(control.place)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if daemon is None or _gone(daemon, 0.0):
            break
        with contextlib.suppress(ProcessLookupError):
            os.kill(daemon.pid, number)
        _gone(daemon, END_S)
    start_detached(control.place, control.program, multiuser=multiuser)


def is_installed() -> bool:
    """Whether systemd runs here and knows the template."""
    return SYSTEMD.is_dir() and any((where / UNIT_NAME).exists() for where in UNIT_DIRECTORIES)


def _systemctl(verb: str, place: Place) -> None:
    name = UNIT_NAME.replace("@", f"@{place.gpu_uuid}")
    try:
        subprocess.run(["systemctl", verb, name], capture_output=True, timeout=START_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ControlFailed(f"systemctl {verb} {name} failed: {error}") from error


def _gone(daemon: Daemon, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while start_ticks(daemon.pid) == daemon.ticks:
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True
