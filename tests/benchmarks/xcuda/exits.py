"""Processes are told to end at random moments: does one die with work in flight?"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agents.control_block import ControlBlock, Limits, Mode
from tests.agents.xcuda.running import Runner, Server

KINDS = ("launch", "launch-sync", "copy", "graph", "alloc", "mixed")
ROUTES = ("direct", "dlsym", "proc")
ON_TERM = ("default", "flag", "exit")
TOGETHER = 2  # one for each core
PYTHON_EVERY = 8
PARKED_EVERY = 5
LONGEST_DELAY_S = 0.04
ENDS_S = 30.0
TIMED = {"STUB_TIME": "1"}

PYTHON_LOOP = """
    cuda.start()
    function = cuda.kernel("step_1000us")
    memory = cuda.make("cuMemAlloc_v2", MIB)
    print("ready", flush=True)
    while True:
        cuda.launch(function, blocks=50)
        cuda.cuMemsetD8Async(memory, 0, MIB, 0)
"""


def count(runner: Runner, folder: Path, exits: int, seed: int) -> dict[str, object]:
    """`exits` in all, each a process of its own; the simulated device counts the unsafe ones."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        lanes = pool.map(
            lambda lane: _lane(runner, folder / str(lane), exits // TOGETHER, seed + lane),
            range(TOGETHER),
        )
    total: Counter[str] = sum(lanes, Counter())
    return {
        "exits": total["exits"],
        "unsafe_exits": total["unsafe"],
        "exits_parked": total["parked"],
        "exits_python": total["python"],
    }


def _lane(runner: Runner, folder: Path, exits: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    server = Server(folder / "mps")
    folder.mkdir(parents=True)
    total: Counter[str] = Counter()
    for turn in range(exits):
        total += _end_one(runner, folder / f"block-{turn}", server, turn, chance)
        unsafe = int(server.report()["exits_unsafe"])
        if unsafe:
            total["unsafe"] += unsafe
            server.restart()
    return total


def _end_one(
    runner: Runner, folder: Path, server: Server, turn: int, chance: random.Random
) -> Counter[str]:
    number = chance.choice((signal.SIGTERM, signal.SIGINT))
    limits = Limits(grace_ms=500, launches_per_s=chance.choice((None, 2_000)))
    counted = Counter({"exits": 1})
    with ControlBlock.create(folder, 1, limits) as block:
        if turn % PYTHON_EVERY == 0:
            counted["python"] = 1
            process = runner.python(PYTHON_LOOP, ready=True, block=block, server=server, env=TIMED)
        else:
            process = _loop(runner, block, server, chance)
        time.sleep(chance.uniform(0, LONGEST_DELAY_S))
        if turn % PARKED_EVERY == 0:
            counted["parked"] = 1
            block.set_policy(Limits(mode=Mode.FREEZE, grace_ms=500))
            time.sleep(0.005)
        process.send_signal(number)
        if turn % PARKED_EVERY == 0:
            time.sleep(0.01)
            block.set_policy(Limits(mode=Mode.EXIT))
        runner.finish(process, ENDS_S)
    return counted


def _loop(
    runner: Runner, block: ControlBlock, server: Server, chance: random.Random
) -> subprocess.Popen[str]:
    return runner.start(
        "loop",
        chance.choice(KINDS),
        *("--via", chance.choice(ROUTES), "--threads", chance.choice((1, 3))),
        *("--on-term", chance.choice(ON_TERM), "--seconds", 60, "--kernel", "step_1000us"),
        block=block,
        server=server,
        env=TIMED,
    )
