"""The layout and its arrows, as far as import-linter cannot see them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agents.wire.version import VERSION
from console import doorbell
from console.queue import app
from tests.__main__ import SERVED

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("agents", "console", "workers")
FRAMEWORKS = {"django", "rest_framework", "channels", "celery", "kombu", "redis"}

# What decides, besides every module that calls itself pure; what acts calls it.
PURE = (
    "agents/wire/**/*.py",
    "agents/sysmonitor/**/*.py",
    "agents/contention/**/*.py",
    "agents/duty.py",
    "agents/stopping.py",
    "workers/matching/**/*.py",
    "workers/prediction/**/*.py",
    "workers/reallocation/**/*.py",
)
# The simulated fleet, which comes with an extra; no other part of a node may need it.
SIMULATED = {
    "agents/actuators/simulated.py",
    "agents/collectors/simulated.py",
    "agents/contention",
    "agents/crowd",
    "agents/fleet.py",
    "agents/stub",
}
WITHOUT_NUMPY = "sys.modules['numpy'] = None"
NEEDS_DJANGO = "import django; django.setup()"


def modules(*patterns: str) -> list[str]:
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    names = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in found)
    return [name.replace("/", ".").removesuffix(".__init__") for name in names]


def loaded_by(names: list[str], prelude: str = "") -> dict[str, set[str]]:
    """Import `names` one after another in a fresh interpreter.

    Return the top-level packages that each was the first to load, less the standard library.
    """
    program = f"""
import importlib, sys
{prelude}
def present():
    return {{name.partition(".")[0] for name in sys.modules}}
before = present()
for name in {names!r}:
    importlib.import_module(name)
    print(name, *sorted(present() - before - sys.stdlib_module_names))
    before |= present()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: set(loaded) for name, *loaded in map(str.split, done.stdout.splitlines())}


def bringing(forbidden: set[str], loaded: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name: found & forbidden for name, found in loaded.items() if found & forbidden}


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_importing_a_package_runs_nothing(package):
    inits = (ROOT / package).rglob("__init__.py")
    assert [str(path) for path in inits if path.read_text().strip()] == []


@pytest.mark.timeout(30)
def test_decisions_load_no_framework():
    names = {*modules(*PURE), *called_pure()}
    assert "console.policies.rules" in names
    assert bringing(FRAMEWORKS, loaded_by(sorted(names))) == {}


def called_pure() -> list[str]:
    """Modules whose first words call them pure."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    pure = [path for path in files if re.match(r'"""[^"]*\bPure\b', path.read_text())]
    return modules(*(str(path.relative_to(ROOT)) for path in pure))


def test_the_wire_loads_msgspec_and_the_standard_library():
    loaded = loaded_by(modules("agents/wire/**/*.py"), prelude="import msgspec")
    assert set().union(*loaded.values()) == {"agents"}


def test_a_real_node_loads_no_framework_and_does_without_numpy():
    real = [path for path in (ROOT / "agents").rglob("*.py") if not is_simulated(path)]
    names = modules(*(str(path.relative_to(ROOT)) for path in real))
    loaded = loaded_by(names, prelude=WITHOUT_NUMPY)
    assert bringing(FRAMEWORKS | {"console", "workers"}, loaded) == {}


def is_simulated(path: Path) -> bool:
    relative = path.relative_to(ROOT)
    return any(relative.is_relative_to(part) for part in SIMULATED)


@pytest.mark.timeout(30)
def test_the_web_process_loads_no_solver_and_no_trainer():
    loaded = loaded_by(["console.asgi", "console.urls"], prelude=NEEDS_DJANGO)
    assert bringing({"ortools", "scipy", "torch", "workers"}, loaded) == {}


def test_every_bell_has_a_task_that_hears_it():
    importlib.import_module("workers.app")
    rung = {name for name in vars(doorbell).values() if isinstance(name, str) and is_task(name)}
    assert rung - set(app.tasks) == set()


def is_task(text: str) -> bool:
    return re.fullmatch(r"(matching|reallocation|telemetry|default)\.\w+", text) is not None


def test_no_module_is_a_drawer_for_odds_and_ends():
    drawers = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}
    named = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    assert [str(path) for path in named if path.stem in drawers] == []


def test_every_distribution_has_the_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert f"muxflow-agent=={VERSION}" in extras["web"]
    assert f"muxflow-agent[simulate]=={VERSION}" in extras["worker"]
    newest = re.search(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == VERSION


@pytest.mark.parametrize("role", ["agent", "demo", "web", "worker"])
def test_every_lock_names_the_versions_that_are_tested(role):
    assert pins(role) - pins("test") == set()


def pins(role: str) -> set[str]:
    lock = (ROOT / "requirements" / f"{role}.txt").read_text()
    return set(re.findall(r"^\S+==\S+", lock, re.MULTILINE))


def test_the_stage_with_services_looks_where_tests_need_them():
    marked = re.compile(r"mark\.integration\b")
    files = [path for path in (ROOT / "tests").rglob("*.py") if marked.search(path.read_text())]
    places = [str(path.relative_to(ROOT)) for path in files]
    known = (*SERVED, "tests/conftest.py", "tests/__main__.py", "tests/test_architecture.py")
    assert [place for place in places if not place.startswith(known)] == []
