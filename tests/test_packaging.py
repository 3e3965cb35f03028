"""Both distributions build, and hold what they should and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("agents", "console", "workers", "pyproject.toml", "README.md", "LICENSE")

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy, since a build writes beside its sources."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder)
    return folder


def build(project: Path, wheels: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", wheels, project], check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    return zipfile.ZipFile(wheel)


def sources(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if ".dist-info/" not in name]


def packages(wheel: zipfile.ZipFile) -> set[str]:
    return {name.partition("/")[0] for name in sources(wheel)}


def read(wheel: zipfile.ZipFile, ending: str) -> str:
    (name,) = [name for name in wheel.namelist() if name.endswith(ending)]
    return wheel.read(name).decode()


def test_the_agent_alone_owns_the_package_agents(source, tmp_path):
    wheel = build(source / "agents", tmp_path)
    assert packages(wheel) == {"agents"}
    assert "agents/wire/messages.py" in wheel.namelist()
    assert not [
        name for name in wheel.namelist() if name.startswith(("agents/stub", "agents/xcuda"))
    ]
    assert {Path(name).suffix for name in sources(wheel)} == {".py"}
    assert "muxflow-agent = agents.__main__:main" in read(wheel, "entry_points.txt")


def test_muxflow_brings_console_and_workers(source, tmp_path):
    wheel = build(source, tmp_path)
    assert packages(wheel) == {"console", "workers"}
    assert "Requires-Dist: Django" in read(wheel, "METADATA")
