"""`make bench-map`: what the live map costs a browser at 20,000 GPUs.

Chromium without a screen on the real page, which the real web process feeds; only the samples are
made up. It paints in software, so `fps_panning` is what two cores do, not a graphics card.

`script_ms_*` is the processor's time of all script of the page's own thread from one frame of the
feed to the next, `script_wall_ms_*` the same by the clock: on a machine with more to do than cores
the clock also counts the waiting. `script_own_clock_ms_*` is that of the page's own clock, in the
first seconds, without the trace that the others are read from and that costs time itself.
`painter_ms_*` is the processor's time of the worker that hears the feed and paints. See `page.py`
for what exactly is counted.

A core that slept runs slower when it wakes than one that is always busy, and a map that does little
wakes it every second: `loop_awake_ms` and `loop_asleep_ms` are one fixed loop in the page on both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

from console.demo.embedded import free_port
from console.demo.processes import die_with_parent
from tests.benchmarks.map import page as pages
from tests.benchmarks.map.page import Watched
from tests.benchmarks.report import Goal, show
from tests.browsing import launched, watched
from tests.services import redis_server, scratch_folder

ROOT: Final = Path(__file__).parents[3]
LOADED_S: Final = 15.0
OWN_CLOCK_S: Final = 30.0
PANNING_S: Final = 10.0
GOALS: Final = [
    Goal("cells", "GPUs on the map", least=20_000),
    Goal("script_ms_p95", "script of a frame in the page, p95, ms of processor", most=4),
    Goal("long_tasks", "tasks over 50 ms after load", most=0, least=0),
    Goal("heap_growth_mib", "growth of the heap, MiB", most=5),
    Goal("fps_panning", "frames a second while panning", least=55),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-map", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of watching (10)")
    parser.add_argument("--nodes", type=int, default=2_500, help="of the fleet (2500)")
    parser.add_argument("--gpus", type=int, default=8, help="a node (8)")
    given = parser.parse_args()
    with (
        server(given.nodes, given.gpus) as (url, session),
        launched() as browser,
        watched(browser, url) as context,
    ):
        context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
        context.add_init_script(pages.PROBE)
        found = measure(browser, context.new_page(), given.minutes * 60)
    show({**found, "minutes": given.minutes}, GOALS)


def measure(browser: Browser, page: Page, seconds: float) -> dict[str, Any]:
    page.goto("/map/?zoom=1")
    page.locator("[data-part=total] b").wait_for(timeout=60_000)
    live = Watched(browser, page, page.context.new_cdp_session(page))
    live.rest(LOADED_S)
    before = live.heap_mib()
    live.rest(1)
    live.reset()
    own_clock = sorted(pages.own_clock_of_frames(live.own_clock(OWN_CLOCK_S)))
    with live.traced():
        live.rest(seconds)
        seen = live.read()
    after = live.heap_mib()
    awake, asleep = live.loop_ms()
    cells = int(page.locator("[data-part=total] b").inner_text().replace(",", ""))
    return {
        "cells": cells,
        **scripts(live),
        "script_own_clock_ms_p50": at(own_clock, 0.5),
        "script_own_clock_ms_p95": at(own_clock, 0.95),
        "kb_s": seen["feed"]["bytes_s"] / 1000,
        "frames_s": seen["feed"]["frames_s"],
        "long_tasks": seen["long"],
        "longest_task_ms": seen["longest"],
        "heap_mib": after,
        "heap_growth_mib": after - before,
        "fps_panning": pages.panning_fps(live, PANNING_S),
        "loop_awake_ms": awake,
        "loop_asleep_ms": asleep,
        "rendering": "headless, in software",
    }


def scripts(live: Watched) -> dict[str, float]:
    kinds = {
        "script_ms": (pages.PAGE, "tdur"),
        "script_wall_ms": (pages.PAGE, "dur"),
        "painter_ms": (pages.WORKER, "tdur"),
        "painter_wall_ms": (pages.WORKER, "dur"),
    }
    found: dict[str, float] = {}
    for name, (thread, time_key) in kinds.items():
        times = sorted(pages.scripts_of_frames(live.events, thread, time_key))
        found |= {f"{name}_p50": at(times, 0.5), f"{name}_p95": at(times, 0.95)}
        found |= {f"{name}_max": times[-1], "frames": len(times)}
    return found


def at(ascending: list[float], share: float) -> float:
    return ascending[int((len(ascending) - 1) * share)]


@contextmanager
def server(nodes: int, gpus: int) -> Iterator[tuple[str, str]]:
    """The address of a web process and the session of somebody who sees everything."""
    with scratch_folder() as folder, redis_server() as live:
        port = free_port()
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "MUXFLOW_VAR_DIR": str(folder),
            "REDIS_URL": live,
        }
        variables.pop("DATABASE_URL", None)
        sizes = ["--nodes", str(nodes), "--gpus", str(gpus), "--port", str(port)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.map.server", *sizes],
            cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}", _session(process)
        finally:
            process.terminate()
            process.wait(30)


def _session(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            return str(json.loads(line)["session"])
    raise RuntimeError(f"The web process ended with {process.wait()} before it served.")


if __name__ == "__main__":
    main()
