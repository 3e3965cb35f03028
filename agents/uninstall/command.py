"""`muxflow-agent uninstall`: says what the agent has left on this node, and takes it away.

Without --yes it changes nothing and only says what it would do. Needs no network. Settings files
and systemd units are a person's, and stay.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from agents import preflight
from agents.config import CannotRun, Config
from agents.mps import unit
from agents.mps.control import PROGRAM, Control, ControlFailed
from agents.mps.health import Snapshot
from agents.ring import FOLDER_NAME
from agents.settings.flags import gather, where_options
from agents.state import running_pid
from agents.uninstall.plan import STATE_FILES, Act, DaemonFacts, Found, Plan, plan

UNITS: Final = ("muxflow-agent.service", unit.UNIT_NAME)


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    parser = argparse.ArgumentParser("muxflow-agent uninstall", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="do it; without this it is only told")
    parser.add_argument("--program", default=PROGRAM, metavar="FILE", help="MPS' control program")
    where_options(parser, "state_dir", "credentials", "mps_dir")
    options = parser.parse_args(arguments)
    try:
        config = gather(options, environment).config
        decided = plan(look(config, (options.program,)))
        sys.stdout.write(as_text(decided))
        if decided.obstacles:
            return 1
        if options.yes:
            carry_out(decided, config, (options.program,))
    except (CannotRun, ControlFailed, OSError) as error:
        sys.stderr.write(f"muxflow-agent: {error}\n")
        return 1
    sys.stdout.write("Done.\n" if options.yes else "Nothing was changed: --yes does it.\n")
    return 0


def as_text(decided: Plan) -> str:
    lines = [
        *(f"first: {sentence}" for sentence in decided.obstacles),
        *(str(step) for step in decided.steps),
        *(f"kept: {sentence}" for sentence in decided.kept),
    ]
    return "".join(f"{line}\n" for line in lines or ["The agent has left nothing here."])


def look(config: Config, program: Sequence[str] = (PROGRAM,)) -> Found:
    """Changes nothing."""
    state_dir, jobs_dir = config.state_dir, config.state_dir / "jobs"
    jobs = _entries(jobs_dir)
    files = [state_dir / name for name in STATE_FILES if (state_dir / name).exists()]
    places = tuple(place for place in _entries(config.mps_dir) if _is_place(place))
    ring = state_dir / FOLDER_NAME
    ours = {*files, jobs_dir, ring, config.credentials}
    return Found(
        running_pid(state_dir),
        tuple(job.name for job in jobs if _lives(job)),
        _waiting_events(state_dir / "agent.sqlite3"),
        tuple(_daemons(config.mps_dir, places, preflight.look_once(config.mps_dir, program))),
        places,
        jobs,
        tuple(files),
        config.credentials if config.credentials.exists() else None,
        tuple(path for path in (jobs_dir, state_dir, config.mps_dir) if path.is_dir()),
        (*(path for path in _entries(state_dir) if path not in ours), *_units()),
        config.recording if config.recording and config.recording.exists() else None,
        ring if ring.is_dir() else None,
    )


def carry_out(decided: Plan, config: Config, program: Sequence[str] = (PROGRAM,)) -> None:
    """In the order of the plan. Raises ControlFailed, OSError; what was done stays done."""
    for step in decided.steps:
        match step.act:
            case Act.QUIT_DAEMON:
                unit.stop(Control(unit.place_of(step.what, config.mps_dir), program))
            case Act.REMOVE_TREE:
                shutil.rmtree(step.what)
            case Act.REMOVE_FILE:
                Path(step.what).unlink(missing_ok=True)
            case Act.REMOVE_EMPTY:
                with contextlib.suppress(OSError):  # not empty: others keep something there
                    Path(step.what).rmdir()


def _entries(directory: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(directory.iterdir()))
    except FileNotFoundError:
        return ()


def _is_place(path: Path) -> bool:
    return path.is_dir() and ((path / "pipe").is_dir() or (path / "log").is_dir())


def _daemons(
    root: Path, places: Sequence[Path], snapshot: Callable[[str], Snapshot]
) -> Iterator[DaemonFacts]:
    for place in places:
        if unit.find(unit.place_of(place.name, root)) is not None:
            clients = snapshot(place.name).client_pids
            yield DaemonFacts(place.name, None if clients is None else len(clients))


def _lives(job: Path) -> bool:
    """Whether a process of the job holds its lock. Asked only where no agent runs, so that nobody
    is turned away by the question."""
    try:
        with (job / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _waiting_events(database: Path) -> int:
    """Counted in a copy: whoever opens a database, even to read, leaves files beside it."""
    parts = [database, database.with_name(f"{database.name}-wal")]
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            if part.exists():
                shutil.copy(part, folder)
        with contextlib.closing(sqlite3.connect(Path(folder) / database.name)) as connection:
            try:
                count: int = connection.execute("SELECT COUNT(*) FROM event").fetchone()[0]
            except sqlite3.Error:
                return 0
    return count


def _units() -> list[Path]:
    paths = (where / name for where in unit.UNIT_DIRECTORIES for name in UNITS)
    return [path for path in paths if path.exists()]
