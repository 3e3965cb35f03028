"""What xCUDA adds to a call: CPU time of the calling thread, with and without it, interleaved."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from agents.control_block import ControlBlock, Limits
from tests.agents.xcuda.running import Runner

CALLS: dict[str, tuple[object, ...]] = {
    "launch": ("launch",),
    "launch_two_threads": ("launch", "--threads", 2),
    "alloc": ("alloc",),
    "alloc_10k_live": ("alloc", "--live", 10_000),
    "memgetinfo": ("memgetinfo",),
    "cuinit": ("init",),
}
# Every limit is on, and none is reached: what is measured is the hot path, not the waiting.
LIMITS = Limits(
    memory_quota_bytes=64 << 30,
    launches_per_s=1_000_000_000,
    blocks_per_s=1_000_000_000_000,
    inflight_cap=1_000_000,
)


def measure(runner: Runner, repetitions: int) -> dict[str, float]:
    """Each program runs alternately with and without xCUDA, `repetitions` times."""
    bare_ns: defaultdict[str, list[float]] = defaultdict(list)
    under_ns: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(repetitions):
        for call, arguments in CALLS.items():
            bare_ns[call].append(_cost_ns(runner, arguments))
            under_ns[call].append(_cost_under_limits_ns(runner, arguments))
    bare = {call: median(taken) for call, taken in bare_ns.items()}
    under = {call: median(taken) for call, taken in under_ns.items()}
    return {
        "launch_bare_ns": bare["launch"],
        "launch_added_ns": under["launch"] - bare["launch"],
        "launch_two_threads_added_ns": under["launch_two_threads"] - bare["launch_two_threads"],
        "alloc_pair_bare_ns": bare["alloc"],
        "alloc_pair_added_ns": under["alloc"] - bare["alloc"],
        "alloc_pair_ratio_10k_live": under["alloc_10k_live"] / under["alloc"],
        "memgetinfo_ns": under["memgetinfo"],
        "cuinit_added_ms": (under["cuinit"] - bare["cuinit"]) / 1e6,
    }


def _cost_ns(runner: Runner, arguments: tuple[object, ...]) -> float:
    ran = runner.run("cost", *arguments, preload=False)
    return float(ran.told["ns"])


def _cost_under_limits_ns(runner: Runner, arguments: tuple[object, ...]) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlBlock.create(Path(folder) / "block", 1, LIMITS) as block,
    ):
        ran = runner.run("cost", *arguments, block=block)
        assert len(block.read_slots()) == 1, ran.stderr
        return float(ran.told["ns"])
