"""Run the whole suite, each kind of test in a process of its own, against real services.

    python -m tests               # everything, as `make test` does
    python -m tests unit js       # these stages only

Stages that fill both cores run one by one, the others in two lanes at the same time: they wait
more than they work. There is one demo at a time, for each takes half a core by being there.

Ends with one line, `N passed, N failed` (and `, N skipped`), and exit status 0 if none failed. With
CI=true nothing may be skipped for want of a service, a compiler or a browser.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from console.demo.processes import die_with_parent
from tests.chromium import find_chromium, packaged_node
from tests.report import Outcome, forbid_skips, judge
from tests.services import migrated, postgres_server, redis_server

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "var" / "test"
# A node as it is: real processes, sockets and daemons, and the C library, built here with gcc.
NODE = (
    *("tests/agents/actuators", "tests/agents/mps", "tests/agents/stub", "tests/agents/xcuda"),
    *("tests/agents/test_agent_killed.py", "tests/agents/test_console_stopped.py"),
    "tests/agents/test_fleet.py",
    *("tests/agents/test_host.py", "tests/agents/test_link.py", "tests/agents/test_xcuda_node.py"),
    *("tests/agents/network/test_messages.py", "tests/agents/network/test_connections.py"),
    *("tests/agents/network/test_random.py", "tests/agents/network/test_namespaces.py"),
    "tests/agents/network/test_tls.py",
    *("tests/agents/test_full_disk.py", "tests/agents/test_observe.py"),
    "tests/agents/test_upgrade.py",
)
# Where tests touch a database, and where they need services: nowhere else need be looked.
DATABASE = ("tests/console", "tests/workers")
SERVED = (
    *DATABASE,
    "tests/monitoring",
    "tests/test_packaging.py",
    "tests/agents/network",
    "tests/agents/test_process_node.py",
)
APART = tuple(
    f"--ignore={path}" for path in (*NODE, "tests/browser", "tests/contract", "tests/demo")
)
# No part of a whole run.
BY_NAME = frozenset({"sqlite"})
NO_TESTS_COLLECTED = 5
# How a stage is told of a service.
VARIABLES = {
    "postgres": "DATABASE_URL",
    "redis": "REDIS_URL",
    "chromium": "MUXFLOW_CHROMIUM",
}
# The services of other stages; make's own job server, which a nested `make` must not join; and
# that no module may be kept compiled: hundreds of processes start here.
UNTOLD = {
    *VARIABLES.values(),
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE"),
}


@dataclass(frozen=True)
class Stage:
    name: str
    command: Sequence[str | Path]
    deadline_s: float
    needs: frozenset[str] = frozenset()  # keys of VARIABLES
    report: Path | None = None

    @property
    def log(self) -> Path:
        return REPORTS / f"{self.name}.log"


def make(name: str, target: str, deadline_s: float) -> Stage:
    return Stage(name, ("make", "--no-print-directory", target), deadline_s)


def pytest(name: str, *arguments: str, deadline_s: float, needs: str = "") -> Stage:
    report = REPORTS / f"{name}.xml"
    output = ("-q", f"--junitxml={report}", "--durations=5", "--durations-min=2")
    # The database is made anew, and goes with its server: some tests leave a connection open.
    database = ("--create-db", "--reuse-db")
    command = (sys.executable, "-m", "pytest", *output, *database, *arguments)
    return Stage(name, command, deadline_s, frozenset(needs.split()), report)


def javascript(name: str, deadline_s: float) -> Stage:
    report = REPORTS / f"{name}.xml"
    to_terminal = ("--test-reporter=spec", "--test-reporter-destination=stdout")
    to_report = ("--test-reporter=junit", f"--test-reporter-destination={report}")
    command = [packaged_node(), "--test", *to_terminal, *to_report, "tests/**/*.test.js"]
    return Stage(name, command, deadline_s, report=report)


# fmt: off
def stages() -> list[tuple[list[Stage], ...]]:
    """What runs after one another; each item is the lanes that run at the same time.

    No two that use PostgreSQL are in different lanes: their test database has one name.
    """
    # With the next one, what a developer runs all day.
    unit = pytest(
        "unit", *APART, "-n2", "-m", "not django_db and not integration and not gpu",
        deadline_s=480,
    )
    # Only by its name: a whole run has these on PostgreSQL, and the demo's own tests on SQLite.
    sqlite = pytest(
        "sqlite", *DATABASE, "-n2", "-m", "django_db and not integration and not gpu",
        deadline_s=480,
    )
    postgres = pytest(
        "postgres", *DATABASE, "-n2", "-m", "django_db and not integration and not gpu",
        deadline_s=480, needs="postgres",
    )
    # They wait more than they work, so one more than cores.
    node = pytest(
        "node", *NODE, "-n3", "--timeout=90", "-m", "not integration and not gpu",
        deadline_s=480,
    )
    # Its plugin slows every other process down, so it is on in this one alone.
    contract = pytest(
        "contract", "tests/contract", "-p", "schemathesis",
        deadline_s=480, needs="postgres redis",
    )
    # Playwright keeps an event loop running in the main thread, so it has a process of its own.
    browser = pytest(
        "browser", "tests/browser", "-p", "no:randomly", "--timeout=240",
        deadline_s=480, needs="postgres redis chromium",
    )
    # Many wait for processes of their own; a file's share what it has started. Beside the demo a
    # test may get little of a core for a while.
    integration = pytest(
        "integration", *SERVED, "-p", "tests.apart", "-n2", "--dist", "loadfile",
        "-m", "integration and not gpu", "--timeout=120",
        deadline_s=600, needs="postgres redis",
    )
    # The product as `make demo` starts it, on SQLite and the packaged Redis: once left alone, once
    # with its story going on.
    still = pytest(
        "still", "tests/demo", "-p", "no:randomly", "-m", "not story",
        deadline_s=600, needs="chromium",
    )
    story = pytest(
        "story", "tests/demo", "-p", "no:randomly", "-m", "story",
        deadline_s=600, needs="chromium",
    )
    check, docker = make("check", "check", deadline_s=360), make("docker", "docker-check", 120)
    return [
        ([unit],),
        ([sqlite],),
        ([postgres],),
        (
            [check, contract, browser, integration],
            [docker, javascript("js", deadline_s=120), node, story, still],
        ),
    ]
# fmt: on


@dataclass
class Services:
    """Started when the first stage needs them, stopped with the run."""

    stack: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def postgres(self) -> str:
        return self.stack.enter_context(postgres_server())

    @cached_property
    def template(self) -> str:
        return self.stack.enter_context(migrated(self.postgres))

    @cached_property
    def redis(self) -> str:
        return self.stack.enter_context(redis_server())

    @cached_property
    def chromium(self) -> str:
        return find_chromium()

    def environment(self, stage: Stage) -> dict[str, str]:
        """What a stage is told: the services it needs and no others."""
        told = {name: value for name, value in os.environ.items() if is_told(name)}
        told["MUXFLOW_VAR_DIR"] = str(REPORTS / stage.name)
        told["MUXFLOW_REDIS_PREFIX"] = f"test-{stage.name}"
        for need in stage.needs:
            told[VARIABLES[need]] = getattr(self, need)
        if "postgres" in stage.needs:
            told["MUXFLOW_TEST_TEMPLATE"] = self.template
        return told


def is_told(name: str) -> bool:
    """Settings of the person's own console are not those of a test run."""
    return name not in UNTOLD and (name == "MUXFLOW_DATA" or not name.startswith("MUXFLOW_"))


def main(names: list[str]) -> int:
    started_s = time.monotonic()
    REPORTS.mkdir(parents=True, exist_ok=True)
    services = Services()
    with services.stack:
        outcomes = asyncio.run(run_all(chosen(names), services))
    total = sum((outcome for outcome, _ in outcomes.values()), Outcome())
    for name, (outcome, took_s) in outcomes.items():
        print(f"{name:12} {took_s:6.1f} s   {outcome}")
    for reason in sorted(set(total.skipped)):
        print(f"skipped      {reason}")
    print(f"whole run    {time.monotonic() - started_s:6.1f} s")
    print(total, flush=True)
    return 0 if total.passed and not total.failed else 1


def chosen(names: list[str]) -> list[list[list[Stage]]]:
    """The stages of these names, or all but BY_NAME, without the lanes that stay empty."""
    lanes = [
        [[stage for stage in lane if is_chosen(stage.name, names)] for lane in together]
        for together in stages()
    ]
    return [[lane for lane in together if lane] for together in lanes]


def is_chosen(stage: str, names: list[str]) -> bool:
    return stage in names if names else stage not in BY_NAME


async def run_all(
    turns: list[list[list[Stage]]], services: Services
) -> dict[str, tuple[Outcome, float]]:
    """By stage, what it came to and how long it took, in seconds."""
    outcomes: dict[str, tuple[Outcome, float]] = {}
    for lanes in turns:
        # Started here, not amid a lane: it would hold up the other.
        environments = {s.name: services.environment(s) for lane in lanes for s in lane}
        at_once = len(lanes) > 1
        await asyncio.gather(*(run_lane(lane, environments, outcomes, at_once) for lane in lanes))
    return outcomes


async def run_lane(
    lane: list[Stage],
    environments: dict[str, dict[str, str]],
    outcomes: dict[str, tuple[Outcome, float]],
    at_once: bool,
) -> None:
    for stage in lane:
        outcomes[stage.name] = await run_stage(stage, environments[stage.name], at_once)


async def run_stage(
    stage: Stage, environment: dict[str, str], at_once: bool
) -> tuple[Outcome, float]:
    """Of two stages at once, each tells what it had to say when it ends."""
    print(f"\n== {stage.name}{' ...' if at_once else ''}", flush=True)
    started_s = time.monotonic()
    if stage.report:
        stage.report.unlink(missing_ok=True)
    if at_once:
        with stage.log.open("wb") as log:
            returncode = await run(stage, environment, log.fileno())
        print(f"\n== {stage.name}\n{stage.log.read_text(errors='replace')}", flush=True)
    else:
        returncode = await run(stage, environment, None)
    outcome = judge(0 if returncode == NO_TESTS_COLLECTED else returncode, stage.report)
    if os.environ.get("CI") == "true":
        outcome = forbid_skips(outcome, has_data="MUXFLOW_DATA" in os.environ)
    return outcome, time.monotonic() - started_s


async def run(stage: Stage, environment: dict[str, str], output: int | None) -> int:
    """Run a stage to its end or its deadline, with all that it started."""
    process = await asyncio.create_subprocess_exec(
        *stage.command,
        cwd=ROOT,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    try:
        return await asyncio.wait_for(process.wait(), stage.deadline_s)
    except TimeoutError:
        print(f"{stage.name}: not done after {stage.deadline_s:.0f} s, ended", flush=True)
        return 124
    finally:
        end_group(process.pid)
        await process.wait()


def end_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
