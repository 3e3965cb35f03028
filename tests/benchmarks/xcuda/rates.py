"""Does a rate hold over a second, and how soon is a new policy followed?"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from agents.control_block import ControlBlock, Limits
from tests.agents.xcuda.running import Runner

KINDS = ("launch", "launch-sync")
RATES_PER_S = (200, 2_000, 20_000)
SETTLE_S, WINDOW_S = 0.3, 1.0
POLICY_WRITES = 300


def errors(runner: Runner, folder: Path, repetitions: int) -> dict[str, object]:
    """The largest of the medians: one for each kind of loop and each rate."""
    found = {
        f"{kind}@{rate}": median(
            _error(runner, folder / f"{kind}-{rate}-{turn}", kind, rate)
            for turn in range(repetitions)
        )
        for kind in KINDS
        for rate in RATES_PER_S
    }
    return {"rate_error_ratio": max(found.values()), "rate_errors": found}


def _error(runner: Runner, folder: Path, kind: str, rate: int) -> float:
    seconds = SETTLE_S + WINDOW_S + 0.5
    with ControlBlock.create(folder, 1, Limits(launches_per_s=rate)) as block:
        loop = runner.start("loop", kind, "--seconds", seconds, block=block)
        time.sleep(SETTLE_S)
        launches, began_s = _launches(block), time.monotonic()
        time.sleep(WINDOW_S)
        done = (_launches(block) - launches) / (time.monotonic() - began_s)
        runner.finish(loop)
    return abs(done / rate - 1)


def _launches(block: ControlBlock) -> int:
    return sum(process.launches for process in block.read_slots())


def policy_latency_ms(runner: Runner, folder: Path) -> dict[str, float]:
    """From the write until the running process has taken it over; the 99th of a hundred."""
    taken_ms = []
    with ControlBlock.create(folder, 1, Limits(duty_permille=900)) as block:
        seconds = POLICY_WRITES * 0.05 + 5
        loop = runner.start("loop", "launch-sync", "--seconds", seconds, block=block)
        for turn in range(POLICY_WRITES):
            began_s = time.monotonic()
            sequence = block.set_policy(Limits(duty_permille=500 + turn % 2 * 400))
            while block.read_slots()[0].sequence != sequence:
                time.sleep(0.0001)
            taken_ms.append((time.monotonic() - began_s) * 1e3)
            time.sleep(0.01)
        loop.terminate()
        runner.finish(loop)
    taken_ms.sort()
    return {
        "policy_latency_ms": taken_ms[int(0.99 * len(taken_ms))],
        "policy_latency_p50_ms": median(taken_ms),
    }
