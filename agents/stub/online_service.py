"""An online service on the stand-in driver: one line in is a request, one line out its answer.

It allocates `--memory-bytes`, says "ready", and serves each request with some kernels. A failed
call of the driver is fatal, as for real servers: the context is lost. It ends with its input.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from agents.stub.cuda import CudaError, Gpu, join_shared_gpus

KERNEL: Final = "serve_2000us"
KERNELS, BLOCKS = 5, 400
FAILED: Final = 3


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory-bytes", type=int, default=1 << 20)
    chosen = parser.parse_args()
    join_shared_gpus()
    try:
        gpu = Gpu()
        gpu.allocate(chosen.memory_bytes)
        _say("ready")
        for _request in sys.stdin:
            _say(f"{_served_in_s(gpu) * 1e3:.2f}")
    except CudaError as error:
        _say(str(error))
        return FAILED
    return 0


def _served_in_s(gpu: Gpu) -> float:
    began = time.monotonic()
    for _ in range(KERNELS):
        gpu.launch(KERNEL, BLOCKS)
    gpu.finish()
    return time.monotonic() - began


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
