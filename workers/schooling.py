"""Train in a child process: PyTorch takes memory that the worker then does not keep.

The child is `python -m workers.train`, at a low priority and with one thread. It says how far it is
on its standard output, a line `progress PART SENTENCE` each time: when its worker is gone, the next
one has no reader, and it ends.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import logging
import os
import selectors
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from console.predictor.training import CannotTrain, Learnt, Lesson, Progress, Stopped
from console.predictor.watching import Trainer

log = logging.getLogger(__name__)

LOW_PRIORITY: Final = ("nice", "-n", "5")
# How often a silent child's run is looked at: it may have been cancelled.
LOOK_S: Final = 1.0
MISSING: Final = (
    "PyTorch is not installed here: run `make ml` (an image: build it with PYTORCH=yes),"
    " then start the workers again."
)
THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# A child that has closed its output is about to end.
END_S: Final = 30.0
READ_BYTES: Final = 65_536


def trainer() -> Trainer:
    """Whether this worker can train; PyTorch itself is not loaded to see it."""
    if importlib.util.find_spec("torch") is None:
        return Trainer("", MISSING)
    return Trainer(f"PyTorch {importlib.metadata.version('torch')}", "")


def train(lesson: Lesson, progress: Progress) -> Learnt:
    """Blocks until the child is done. Raises Stopped, and CannotTrain with the child's reason."""
    try:
        return _train(lesson, progress)
    except (OSError, ValueError) as error:
        raise CannotTrain(f"The training could not be done here: {error}") from error


def _train(lesson: Lesson, progress: Progress) -> Learnt:
    with tempfile.TemporaryDirectory(prefix="muxflow-training-") as scratch:
        folder = Path(scratch)
        command = _command(lesson, folder)
        with (folder / "errors").open("w+") as errors:
            child = _start(command, errors)
            try:
                _follow(child, progress)
                with suppress(subprocess.TimeoutExpired):
                    child.wait(END_S)
            finally:
                _end(child)
            if child.returncode != 0:
                errors.seek(0)
                raise CannotTrain(_reason(errors.read(), child.returncode))
        report = json.loads((folder / "report.json").read_text())
        return Learnt((folder / "version.npz").read_bytes(), report)


def _command(lesson: Lesson, folder: Path) -> list[str]:
    (folder / "observations.csv").write_text(lesson.csv)
    against = []
    if lesson.active is not None and _fits(lesson.active):
        (folder / "active.npz").write_bytes(lesson.active)
        against = ["--against", str(folder / "active.npz")]
    return [
        *LOW_PRIORITY,
        *(sys.executable, "-m", "workers.train", str(folder / "observations.csv")),
        *("--out", str(folder / "version.npz"), "--report", str(folder / "report.json")),
        *("--origin", "observed", "--seed", str(lesson.seed)),
        *(["--simulated"] if lesson.simulated else []),
        *against,
    ]


def _fits(active: bytes) -> bool:
    """Whether this release can use the version in force: one of another cannot be compared."""
    from workers.prediction import artifact  # beat, which names this module's tasks, needs none

    try:
        artifact.load(active)
    except ValueError as error:
        log.warning("The version in force cannot be compared with: %s", error)
        return False
    return True


def _start(command: list[str], errors: IO[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=os.environ | dict.fromkeys(THREADS, "1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
    )


def _follow(child: subprocess.Popen[bytes], progress: Progress) -> None:
    """Hand on what it says until it closes its output. Raises Stopped."""
    assert child.stdout is not None  # noqa: S101  (opened as a pipe above)
    part, said, heard = 0.0, "Starting", b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(LOOK_S):
                read = os.read(child.stdout.fileno(), READ_BYTES)
                if not read:
                    return
                *lines, heard = (heard + read).split(b"\n")
                for line in lines:
                    part, said = told(line.decode(errors="replace")) or (part, said)
            if not progress(part, said):
                raise Stopped


def told(line: str) -> tuple[float, str] | None:
    """`progress 0.42 Fitting` → (0.42, "Fitting"); None for any other line."""
    word, _, rest = line.partition(" ")
    part, _, said = rest.partition(" ")
    if word != "progress":
        return None
    try:
        fraction = float(part)
    except ValueError:
        return None
    return None if fraction != fraction else (min(1.0, max(0.0, fraction)), said[:200])


def _end(child: subprocess.Popen[bytes]) -> None:
    """It holds nothing that needs a gentle stop: what it has written is thrown away."""
    if child.stdout is not None:
        child.stdout.close()
    child.kill()  # nothing, when it has ended by itself
    child.wait()


def _reason(errors: str, code: int) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"The training ended with status {code} and said nothing."
