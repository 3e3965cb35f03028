"""A training job on the stand-in driver, by a user who never thought of SIGTERM.

It keeps kernels in flight nearly all the time and saves now and then. It has no handler: with
libxcuda a SIGTERM ends it idle; without, it ends it amid a kernel, which hits every client of the
GPU's MPS server. The orders in its environment are those of `agents/actuators/process.py`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Final

from agents.stub.cuda import CudaError, Gpu, join_shared_gpus
from agents.stub.trainer import begin, say, tell

KERNEL: Final = "train_10000us"
# A step of 0.2 s alone on the GPU.
KERNELS, BLOCKS = 40, 450
MEMORY_BYTES: Final = 6 << 30


def main() -> int:
    join_shared_gpus()
    training = begin()
    clock = float(os.environ.get("MUXFLOW_WORLD_CLOCK", "1"))
    say(f"resumed at {training.done_s:.0f} of {training.work_s:.0f} GPU-seconds")
    try:
        gpu = Gpu()
        gpu.allocate(MEMORY_BYTES)
        while not training.finished:
            began = time.monotonic()
            _step(gpu)
            took_s = time.monotonic() - began
            training = training.step(STEP_S * clock, STEP_S / took_s)
            training = training.save() if training.save_is_due else training
            tell(training, STEP_S)
    except CudaError as error:
        say(f"lost its context: {error}")
        return 1
    tell(training.save(), STEP_S)
    say("finished")
    return 0


def _step(gpu: Gpu) -> None:
    for _ in range(KERNELS):
        gpu.launch(KERNEL, BLOCKS)
    gpu.finish()


# Alone: each kernel fills 45 % of the device.
STEP_S: Final = KERNELS * 0.01


if __name__ == "__main__":
    sys.exit(main())
