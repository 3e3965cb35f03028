"""An online service. Each line of its input is a number of thread blocks: from then on two kernels
of so many are on its GPU at any time; with 0 it idles.

It answers each line with the moment of the first launch that obeys it, in ns of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import select
import sys
import time
from itertools import cycle

from tests.agents.xcuda.calls import cuda

# Long enough that the GPU stays busy although this process waits for a core.
KERNEL = "serve_50000us"


def main() -> None:
    cuda.start()
    kernel, streams = cuda.kernel(KERNEL), [cuda.make("cuStreamCreate", 1) for _ in range(2)]
    say("ready")
    blocks = 0
    for stream in cycle(streams):
        cuda.ok("cuStreamSynchronize", stream)
        if not blocks or is_told():
            blocks = int(sys.stdin.readline() or "-1")
            say(str(time.monotonic_ns()))
        if blocks < 0:
            return
        if blocks:
            cuda.launch(kernel, blocks, stream)


def is_told() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
