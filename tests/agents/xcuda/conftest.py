"""The library, the stand-in driver and the programs, built once; and ways to run them together."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.control_block import ControlBlock, Limits
from tests.agents.xcuda.running import BUILD, Runner, Server, build, can_build


@pytest.fixture(scope="session")
def stub() -> Path:
    """The folder with the stand-in `libcuda.so.1` and `libnvidia-ml.so.1`."""
    _build("stub", "programs", BUILD / "mps-report")
    return BUILD / "stub"


@pytest.fixture(scope="session")
def library(stub: Path) -> Path:
    """`libxcuda.so`; its tools lie beside it."""
    _build("lib", "tools")
    return BUILD / "libxcuda.so"


@pytest.fixture(scope="session")
def run_native() -> Callable[..., None]:
    """Builds and runs `native/NAME.c`; `checked` by a sanitizer: "asan" or "tsan"."""

    def run(name: str, checked: str = "native") -> None:
        program = BUILD / checked / name
        _build(program)
        ran = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr

    return run


def _build(*targets: str | Path) -> None:
    if not can_build():
        pytest.skip("compiler: xCUDA needs make and a C compiler")
    build(*targets)


@pytest.fixture
def bare(stub: Path, tmp_path: Path) -> Iterator[Runner]:
    """Runs programs on the stand-in driver; only `preload=False` makes sense with it."""
    with contextlib.closing(Runner(tmp_path)) as runner:
        yield runner


@pytest.fixture
def xcuda(library: Path, bare: Runner) -> Runner:
    """Runs programs under the library."""
    return bare


@pytest.fixture
def server(stub: Path, tmp_path: Path) -> Server:
    """An MPS server and simulated GPU of this test alone."""
    return Server(tmp_path / "mps")


@pytest.fixture
def make_block(tmp_path: Path) -> Iterator[Callable[..., ControlBlock]]:
    """Makes control blocks: `make_block(memory_quota_bytes=...)`, all of `Limits` understood."""
    with contextlib.ExitStack() as opened:

        def make(name: str = "block", generation: int = 1, **limits: Any) -> ControlBlock:
            block = ControlBlock.create(tmp_path / name, generation, Limits(**limits))
            return opened.enter_context(block)

        yield make
