"""Every function that a CUDA 13 runtime asks for: is it the variant that the driver chose?"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.agents.xcuda.running import Runner
from tests.agents.xcuda.test_resolution import REQUESTS, answers, is_right, logged

LOGGED = "cuda/cudart13_getprocaddress_requests.txt"


def replay(runner: Runner, folder: Path) -> dict[str, object]:
    """The logged requests of a real runtime where there are any, else every name and version."""
    requests, source = _requests()
    path = folder / "requests"
    path.write_text(json.dumps(requests))
    bare, under = answers(runner, path, preload=False), answers(runner, path, preload=True)
    wrong = sum(not is_right(*pair) for pair in zip(bare, under, strict=True))
    return {"requests": len(requests), "requests_of": source, "wrong_variants": wrong}


def _requests() -> tuple[list[tuple[str, int, int]], str]:
    path = Path(os.environ.get("MUXFLOW_DATA", "")) / LOGGED
    return (logged(path), LOGGED) if path.is_file() else (list(REQUESTS), "every name and version")
