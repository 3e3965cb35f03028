"""An online service that idles until a line tells it of how many thread blocks its kernels are to
be. With them it keeps its GPU busy until the next line.

It answers the first line with the moment of its first launch, in ns of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import select
import sys
import time
from itertools import cycle

from tests.agents.xcuda.calls import cuda

# Long enough that the GPU stays busy although this process waits for a core.
KERNEL = "serve_20000us"


def main() -> None:
    cuda.start()
    kernel, streams = cuda.kernel(KERNEL), [cuda.make("cuStreamCreate", 1) for _ in range(2)]
    say("ready")
    while line := os.read(0, 64):
        say(str(time.monotonic_ns()))
        work(kernel, int(line), streams)


def work(kernel: int, blocks: int, streams: list[int]) -> None:
    """Two kernels are there at any time: both run if there is room, else one waits."""
    for stream in cycle(streams):
        cuda.launch(kernel, blocks, stream)
        if select.select([0], [], [], 0)[0]:
            break
        cuda.ok("cuStreamSynchronize", next(one for one in streams if one != stream))
    os.read(0, 64)
    cuda.ok("cuCtxSynchronize")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
