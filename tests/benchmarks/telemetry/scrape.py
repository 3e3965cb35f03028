"""What `/metrics/fleet` costs: to make it in a worker, and to scrape it from a web process.

    python -m tests.benchmarks.telemetry.scrape          # 100 and 20,000 GPUs

On the PostgreSQL and Redis that DATABASE_URL and REDIS_URL name, else on its own.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from console.demo.embedded import free_port
from tests.benchmarks.report import Goal, show
from tests.benchmarks.telemetry.site import Site, web
from tests.services import postgres_server, redis_server, scratch_folder

ROOT: Final = Path(__file__).parents[3]
SCRAPES: Final = 5
# As Prometheus asks.
ACCEPT: Final = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5"
GOALS: Final = (
    Goal("metrics_scrape_s", "slowest of five scrapes of /metrics/fleet, s", most=1.0),
    Goal("metrics_queries_more", "queries for 20,000 GPUs more than for 100", most=0, least=0),
)


def measure(small: int = 100, large: int = 20_000) -> dict[str, float]:
    """`metrics_scrape_s`: the slowest of five, packed, from another process; `metrics_plain_s`:
    the same in plain. `metrics_queries_*`: of making the page and scraping it. `metrics_render_*`:
    of making it, with both formats, wall clock and CPU."""
    with scratch_folder() as folder, postgres_server() as database, redis_server() as live:
        folder.chmod(0o755)
        token = secrets.token_urlsafe()
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": database,
            "REDIS_URL": live,
            "MUXFLOW_VAR_DIR": str(folder),
            "MUXFLOW_METRICS_TOKEN": token,
            "MUXFLOW_METRICS_PERIOD_S": "60",  # so that the page is there for all scrapes
        }
        few, many = _made(small, variables), _made(large, variables)
        place = Site(folder, free_port(), variables, folder / "none", "", {})
        with web(place):
            packed = [_scraped(place.port, token, "gzip") for _ in range(SCRAPES)]
            plain = [_scraped(place.port, token, "identity") for _ in range(SCRAPES)]
    return {
        "metrics_gpus": large,
        "metrics_scrape_s": max(took for took, _ in packed),
        "metrics_plain_s": max(took for took, _ in plain),
        "metrics_bytes": len(packed[0][1]),
        "metrics_plain_bytes": len(plain[0][1]),
        "metrics_lines": plain[0][1].count(b"\nmuxflow_"),
        "metrics_render_s": many["render_s"],
        "metrics_render_cpu_s": many["render_cpu_s"],
        "metrics_queries_small": few["queries"],
        "metrics_queries_large": many["queries"],
        "metrics_queries_more": many["queries"] - few["queries"],
    }


def _made(gpus: int, variables: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.telemetry.fleet_page", str(gpus)]
    done = subprocess.run(
        command, cwd=ROOT, env=variables, check=True, stdout=subprocess.PIPE, text=True
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _scraped(port: int, token: str, encoding: str) -> tuple[float, bytes]:
    headers = {
        "Authorization": f"Bearer {token}", "Accept": ACCEPT, "Accept-Encoding": encoding,
    }  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    began = time.monotonic()
    connection.request("GET", "/metrics/fleet", headers=headers)
    with connection.getresponse() as answer:
        body = answer.read()
    took = time.monotonic() - began
    connection.close()
    whole = gzip.decompress(body) if encoding == "gzip" else body
    assert whole.endswith(b"# EOF\n")
    return took, body


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", type=int, default=100)
    parser.add_argument("--large", type=int, default=20_000)
    given = parser.parse_args()
    show(measure(given.small, given.large), GOALS)
