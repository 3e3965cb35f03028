"""`loop.py KIND [--seconds S] [--on-term default|flag]`: `loop.c` in Python, through ctypes.

KIND is launch, launch-sync, copy, graph or alloc. Python turns SIGINT into KeyboardInterrupt;
SIGTERM has its default meaning unless `--on-term flag` sets a flag that ends the loop. Prints
"ready", then one line of JSON: calls made, those that failed, and what ended the loop.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable

BLOCKS = 100
BYTES = 1 << 20
GRAPH_KERNELS = 8

Act = Callable[[], int]


class Driver:
    """Just enough of the driver; integers are passed as 64 bits, whatever they are."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object) -> int:
        wide = [ctypes.c_uint64(it) if isinstance(it, int) else it for it in arguments]
        return int(getattr(self.library, name)(*wide))

    def make(self, name: str, *arguments: object) -> int:
        """What the call puts into its first parameter. Raises RuntimeError when it fails."""
        made = ctypes.c_uint64()
        code = self(name, ctypes.byref(made), *arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")
        return made.value


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["launch", "launch-sync", "copy", "graph", "alloc"])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--on-term", choices=["default", "flag"], default="default")
    chosen = parser.parse_args()
    told: list[int] = []
    if chosen.on_term == "flag":
        signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    act = prepare(chosen.kind)
    ended = "time"
    calls = failed = 0
    end = time.monotonic() + chosen.seconds
    try:
        say("ready")
        while time.monotonic() < end and not told:
            calls += 1
            failed += act() != 0
    except KeyboardInterrupt:
        ended = "KeyboardInterrupt"
    say(json.dumps({"calls": calls, "failed": failed, "ended": "flag" if told else ended}))
    return 1 if failed else 0


def prepare(kind: str) -> Act:
    """Makes the primary context current, and what the loop needs."""
    cuda = Driver()
    cuda("cuInit", 0)
    cuda("cuCtxSetCurrent", cuda.make("cuDevicePrimaryCtxRetain", 0))
    module = cuda.make("cuModuleLoadData", b"")
    kernel = cuda.make("cuModuleGetFunction", module, b"step_20us")
    stream = cuda.make("cuStreamCreate", 1)

    def launch() -> int:
        return cuda("cuLaunchKernel", kernel, BLOCKS, 1, 1, 128, 1, 1, 0, stream, None, None)

    def launch_and_wait() -> int:
        return launch() or cuda("cuStreamSynchronize", stream)

    acts = {"launch": launch, "launch-sync": launch_and_wait}
    make = {"copy": copying, "graph": replaying, "alloc": allocating}.get(kind)
    return make(cuda, stream, launch) if make else acts[kind]


def copying(cuda: Driver, stream: int, _launch: Act) -> Act:
    target = cuda.make("cuMemAlloc_v2", BYTES)
    source = ctypes.create_string_buffer(BYTES)
    return lambda: cuda("cuMemcpyHtoDAsync_v2", target, source, BYTES, stream)


def replaying(cuda: Driver, stream: int, launch: Act) -> Act:
    graph = ctypes.c_uint64()
    cuda("cuStreamBeginCapture_v2", stream, 1)
    for _ in range(GRAPH_KERNELS):
        launch()
    cuda("cuStreamEndCapture", stream, ctypes.byref(graph))
    graph_exec = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
    return lambda: cuda("cuGraphLaunch", graph_exec, stream)


def allocating(cuda: Driver, stream: int, launch: Act) -> Act:
    def act() -> int:
        address = cuda.make("cuMemAllocAsync", BYTES, stream)
        return launch() or cuda("cuMemFreeAsync", address, stream)

    return act


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
