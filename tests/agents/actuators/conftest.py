"""Jobs of the process runtime under libxcuda, on the stand-in driver."""

from __future__ import annotations

import contextlib
import time

import pytest

from agents.actuators.base import Condition
from agents.actuators.process import ProcessRuntime
from agents.actuators.recipe import ProcessSettings
from agents.actuators.xcuda import XcudaSettings
from tests.agents.cast import PLACEMENT_ID, placement
from tests.agents.xcuda.running import BUILD, Server, build, can_build

GONE = (Condition.EXITED, Condition.VANISHED, Condition.NEVER_RAN)


class Bench:
    """One job, the runtime that holds it, and the simulated GPU that it runs on."""

    def __init__(self, folder):
        self.folder = folder
        self.server = Server(folder / "mps")
        self.runtime = self.new_runtime()

    def new_runtime(self, clients=None, groups=None, **xcuda):
        settings = ProcessSettings(
            self.folder / "jobs", xcuda=self.settings(**xcuda), groups=groups, memory_bytes=1 << 32
        )
        self.runtime = ProcessRuntime(settings, {0: "GPU-0", 1: "GPU-1"}, clients)
        return self.runtime

    def settings(self, **xcuda):
        return XcudaSettings(BUILD / "libxcuda.so", **xcuda)

    def adopt(self):
        """As by the next agent."""
        self.new_runtime().adopt(placement())

    def start(self, *words, **changes):
        """Words of a shell with `$programs` and `$saved` (a file) at hand."""
        self.placement = placement(command=self.command(*words), **changes)
        self.runtime.start(self.placement)

    def command(self, *words):
        driver = f"LD_LIBRARY_PATH={BUILD / 'stub'}"
        gpu = (f"STUB_MPS={self.server.path}", "STUB_TIME=1")
        there = (f"programs={BUILD / 'programs'}", f"saved={self.folder / 'saved'}")
        return ("env", driver, *gpu, *there, "sh", "-c", " ".join(words))

    def facts(self):
        return self.runtime.observe(PLACEMENT_ID, time.monotonic())

    def until(self, holds, timeout_s=8.0):
        """The facts, once they hold; the agent looks and beats as its loop does."""
        deadline = time.monotonic() + timeout_s
        while not holds(facts := self.facts()):
            assert time.monotonic() < deadline, f"it never came true: {facts}"
            self.runtime.beat()
            time.sleep(0.01)
        return facts

    def end(self):
        return self.until(lambda facts: facts.condition in GONE)

    def leash(self):
        return self.runtime._leash(PLACEMENT_ID)

    def launches(self):
        self.facts()
        return sum(one.launches for one in self.leash().statement.processes)


@pytest.fixture
def bench(tmp_path):
    if not can_build():
        pytest.skip("compiler: xCUDA needs make and a C compiler")
    build("stub", "programs", "lib", BUILD / "mps-report")
    bench = Bench(tmp_path)
    yield bench
    bench.runtime.kill(PLACEMENT_ID)
    with contextlib.suppress(AssertionError):
        bench.end()
