"""Two processes race for the last room under their job's quota."""

from __future__ import annotations

from pathlib import Path

from agents.control_block import ControlBlock, Limits
from tests.agents.xcuda.running import Runner, Server

BYTES = 64 << 20
QUOTA_BYTES = 3 * BYTES // 2  # room for one of the two
PROCESSES = 2


def race(runner: Runner, folder: Path, rounds: int) -> dict[str, int]:
    """`rounds` in all, so many that the second process has long begun when the first ends.

    Each looks at what the device holds after every allocation that was granted.
    """
    server = Server(folder / "mps")
    with ControlBlock.create(folder / "block", 1, Limits(memory_quota_bytes=QUOTA_BYTES)) as block:
        arguments = ("--rounds", rounds // PROCESSES, "--bytes", BYTES, "--quota", QUOTA_BYTES)
        watched = {"STUB_WATCH": str(QUOTA_BYTES)}
        racers = [
            runner.start(
                "racer", *arguments, "--seed", seed, block=block, server=server, env=watched
            )
            for seed in range(1, PROCESSES + 1)
        ]
        told = [runner.finish(racer, timeout_s=600).told for racer in racers]
        assert all(one["granted"] and one["refused"] and not one["other"] for one in told), told
        assert block.used_bytes() == 0, f"{block.used_bytes()} bytes are charged and gone"
    return {
        "quota_rounds": sum(one["rounds"] for one in told),
        "over_quota_events": sum(one["over"] for one in told),
        "quota_refused": sum(one["refused"] for one in told),
    }
