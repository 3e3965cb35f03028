"""One simulated GPU, an online service and an offline loop: what does each lose by the other?

The device follows the law of docs/xcuda-stub.md. Its own account of when the last kernel of a
request was done is used, so that what the operating system adds on a busy machine is not counted.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

from agents.control_block import ControlBlock, Limits
from tests.agents.xcuda.running import Runner, Server

TIMED = {"STUB_TIME": "1"}
# A request is sixteen kernels on part of the device, 8 ms alone; the training step fills it.
REQUESTS = (
    *("--requests", 250, "--period-ms", 45, "--poisson", 1),
    *("--kernels", 16, "--grid", 600, "--kernel", "serve_500us"),
)
OFFLINE = ("launch", "--threads", 1, "--grid", 1000, "--kernel", "step_700us")
LOOP_S = 60  # longer than any service here answers requests
SOLO_S = 3
LIMITS = Limits(duty_permille=430, inflight_cap=1)


def measure(runner: Runner, folder: Path, repetitions: int) -> dict[str, object]:
    """Interleaved: alone, beside an unlimited neighbour, beside a limited one."""
    turns = [_turn(runner, folder / str(turn)) for turn in range(repetitions)]
    return {key: median(turn[key] for turn in turns) for key in turns[0]}


def _turn(runner: Runner, folder: Path) -> dict[str, float]:
    folder.mkdir(parents=True)
    alone = _p99_ms(runner, Server(folder / "alone"))
    solo = _offline_alone(runner, Server(folder / "solo"))
    unlimited, _ = _beside(runner, Server(folder / "unlimited"), None)
    with ControlBlock.create(folder / "block", 1, LIMITS) as block:
        limited, launches_per_s = _beside(runner, Server(folder / "limited"), block)
    return {
        "online_p99_ms_alone": alone,
        "online_p99_ratio_unlimited": unlimited / alone,
        "online_p99_ratio_limited": limited / alone,
        "offline_throughput_ratio": launches_per_s / solo,
    }


def _p99_ms(runner: Runner, server: Server) -> float:
    ran = runner.run("online", *REQUESTS, server=server, preload=False, env=TIMED, timeout_s=60)
    return float(ran.told["device_p99_ms"])


def _offline_alone(runner: Runner, server: Server) -> float:
    ran = runner.run("loop", *OFFLINE, "--seconds", SOLO_S, server=server, preload=False, env=TIMED)
    return float(ran.told["calls"]) / float(ran.told["seconds"])


def _beside(runner: Runner, server: Server, block: ControlBlock | None) -> tuple[float, float]:
    """The service's p99 in ms, and the launches per second of its neighbour."""
    offline = runner.start(
        *("loop", *OFFLINE, "--seconds", LOOP_S, "--on-term", "flag"),
        server=server,
        preload=block is not None,
        block=block,
        env=TIMED,
    )
    p99_ms = _p99_ms(runner, server)
    return p99_ms, _launches_per_s(runner, offline)


def _launches_per_s(runner: Runner, offline: subprocess.Popen[str]) -> float:
    offline.terminate()
    told = runner.finish(offline, timeout_s=30).told
    return float(told["calls"]) / float(told["seconds"])
