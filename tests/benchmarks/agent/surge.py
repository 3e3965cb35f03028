"""An online service that idles until it is told "rise", and fills its GPU until it is told "fall".

It answers "rise" with the moment of its first launch, in ns of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import select
import sys
import time
from itertools import cycle

from tests.agents.xcuda.calls import cuda

WHOLE_GPU_BLOCKS = 1_000
# Long enough that launching costs this machine nothing, short enough to fall at once.
KERNEL = "serve_10000us"


def main() -> None:
    cuda.start()
    kernel, streams = cuda.kernel(KERNEL), [cuda.make("cuStreamCreate", 1) for _ in range(2)]
    say("ready")
    while os.read(0, 64):
        say(str(time.monotonic_ns()))
        fill(kernel, streams)


def fill(kernel: int, streams: list[int]) -> None:
    """One kernel runs and one waits, until a word comes."""
    for stream in cycle(streams):
        cuda.launch(kernel, WHOLE_GPU_BLOCKS, stream)
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
