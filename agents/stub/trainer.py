"""A stand-in for a training job: steps, progress, a checkpoint when told to stop. No GPU needed.

Reads its orders from the environment that `agents/actuators/process.py` describes. A step takes
`MUXFLOW_STEP_S` real seconds and does `MUXFLOW_WORLD_CLOCK` times as much work. At TERM it sets a
flag, as trainers do, saves at the next step boundary and exits 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

SAVE_EVERY_WORK_S: Final = 600.0


@dataclass(frozen=True)
class Training:
    """How far the job is, in GPU-seconds of work, and how fast, in parts of its full speed."""

    work_s: float
    done_s: float
    saved_s: float
    throughput: float | None = None

    def step(self, work_s: float, throughput: float) -> Training:
        done_s = min(self.work_s, self.done_s + work_s)
        return replace(self, done_s=done_s, throughput=throughput)

    def save(self) -> Training:
        return replace(self, saved_s=self.done_s)

    @property
    def save_is_due(self) -> bool:
        return self.done_s - self.saved_s >= SAVE_EVERY_WORK_S

    @property
    def finished(self) -> bool:
        return self.done_s >= self.work_s


class StopFlag:
    """Set by TERM, looked at between steps."""

    raised = False

    def __call__(self, _number: int, _frame: object) -> None:
        self.raised = True


def main() -> int:
    stop = StopFlag()
    signal.signal(signal.SIGTERM, stop)
    training = begin()
    step_s = float(os.environ.get("MUXFLOW_STEP_S", "0.2"))
    step_work_s = step_s * float(os.environ.get("MUXFLOW_WORLD_CLOCK", "1"))
    say(f"resumed at {training.done_s:.0f} of {training.work_s:.0f} GPU-seconds")
    while not (training.finished or stop.raised):
        began = time.monotonic()
        time.sleep(step_s)
        training = training.step(step_work_s, step_s / (time.monotonic() - began))
        training = training.save() if training.save_is_due else training
        tell(training, step_s)
    training = training.save()
    tell(training, step_s)
    say(f"saved at {training.done_s:.0f}, {'stopped' if stop.raised else 'finished'}")
    return 0


def begin() -> Training:
    """Where the job stands, by its environment."""
    resume_s = float(os.environ.get("MUXFLOW_RESUME_WORK_S", "0"))
    return Training(float(os.environ.get("MUXFLOW_WORK_S", "60")), resume_s, resume_s)


def tell(training: Training, step_s: float) -> None:
    """To the agent, in the file that it named."""
    target = os.environ.get("MUXFLOW_PROGRESS")
    if target is None:
        return
    told = {
        "work_done_s": training.done_s,
        "saved_work_s": training.saved_s,
        "progress": training.done_s / training.work_s,
        "throughput": training.throughput,
        "step_s": step_s / training.throughput if training.throughput else None,
    }
    fresh = Path(f"{target}.new")
    fresh.write_text(json.dumps(told))
    fresh.rename(target)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
