"""Every function that a CUDA 13 runtime asks for: is it the variant that the driver chose?"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.agents.xcuda.running import Runner
from tests.agents.xcuda.test_resolution import HOOKED, REQUESTS, answers

LOGGED = "cuda/cudart13_getprocaddress_requests.txt"


def replay(runner: Runner, folder: Path) -> dict[str, object]:
    """The logged requests of a real runtime where there are any, else every name and version."""
    requests, source = _requests()
    path = folder / "requests"
    path.write_text(json.dumps(requests))
    bare, under = answers(runner, path, preload=False), answers(runner, path, preload=True)
    wrong = [
        request
        for request, without, hooked in zip(requests, bare, under, strict=True)
        if not _same(without, hooked)
    ]
    return {"requests": len(requests), "requests_of": source, "wrong_variants": len(wrong)}


def _same(without: list[object], under: list[object]) -> bool:
    """Same code, same status, and the hook of that very variant exactly when there is one."""
    if (without[0], without[2]) != (under[0], under[2]):
        return False
    if not isinstance(without[1], list):
        return under[1] is None
    symbol = without[1][1]
    return under[1] == ["libxcuda.so" if symbol in HOOKED else "libcuda.so.1", symbol]


def _requests() -> tuple[list[tuple[str, int, int]], str]:
    logged = Path(os.environ.get("MUXFLOW_DATA", "")) / LOGGED
    if not logged.is_file():
        return list(REQUESTS), "every name and version"
    rows = (line.rsplit(" ", 2) for line in logged.read_text().splitlines())
    return [(name.strip(), int(version), int(flags)) for name, version, flags in rows], LOGGED
