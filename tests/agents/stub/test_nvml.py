"""The agent's own collector, through nvidia-ml-py, on the stand-in NVML and real processes."""

from __future__ import annotations

import json
import sys

import pytest

from agents.wire.names import SIGNALS, Signal
from tests.agents.stub import nvml_reader
from tests.agents.stub.conftest import TIMED
from tests.agents.xcuda.running import BUILD, ROOT, Runner, build, can_build

MIB = 1 << 20
# What only a service's own metrics tell.
ELSEWHERE = {Signal.ONLINE_P99, Signal.ONLINE_QPS}
BUSY = ("loop", "launch-sync", "--kernel", "step_500us", "--grid", 400, "--seconds", 60)
COPYING = ("loop", "copy", "--bytes", 4 * MIB, "--seconds", 60)
FAULT = {"STUB_FAIL": "cuLaunchKernel:700@5"}


class Machine(Runner):
    """Two simulated GPUs, and the reader that a test asks about them."""

    def start_on(self, gpu, *program, **env):
        return self.start(*program, **self._how({"CUDA_VISIBLE_DEVICES": gpu} | env))

    def run_on(self, gpu, *program, **env):
        return self.run(*program, **self._how({"CUDA_VISIBLE_DEVICES": gpu} | env))

    def open_reader(self, **env):
        python = {"PYTHONPATH": str(ROOT)}
        self.reader = self.start([sys.executable, nvml_reader.__file__], **self._how(python | env))

    def _how(self, env):
        gpus = {"STUB_GPUS": "2", "STUB_MPS": str(self.folder / "mps")}
        return {"preload": False, "env": TIMED | gpus | env}

    def read(self, **jobs):
        self.reader.stdin.write(json.dumps(jobs) + "\n")
        self.reader.stdin.flush()
        return json.loads(self.reader.stdout.readline())

    def state(self, lines):
        """What NVML is to say from now on, by STUB_NVML."""
        (self.folder / "stated").write_text(lines)


@pytest.fixture
def machine(tmp_path):
    if not can_build():
        pytest.skip("compiler: the stand-in driver needs make and a C compiler")
    build("stub", "programs", BUILD / "mps-report")
    machine = Machine(tmp_path)
    machine.state("")
    yield machine
    machine.close()


def processes(gpu):
    return {one["pid"]: one for one in gpu["processes"]}


def test_every_signal_is_what_the_device_does(machine):
    machine.start_on("0", *BUSY)
    machine.start_on("0", *COPYING)
    machine.open_reader()
    busy, idle = machine.read()

    assert {signal for signal in SIGNALS if signal not in busy} == ELSEWHERE
    # The law lets 400 blocks have two fifths of the device at most.
    assert 0 < busy["sm_activity"] <= 41
    assert busy["sm_activity"] == busy["sm_occupancy"]
    assert busy["gpu_util"] > busy["sm_activity"]
    assert 0 < busy["memory_bandwidth"] < busy["sm_activity"]
    assert 70 < busy["power"] < 300
    assert busy["sm_clock"] == busy["sm_clock_max_mhz"]
    assert busy["pcie_rx"] > 1e6
    assert busy["memory"] == sum(one["memory_bytes"] for one in busy["processes"]) > 0

    quiet = ("gpu_util", "sm_activity", "memory_bandwidth", "pcie_rx", "memory", "xid")
    assert [idle[name] for name in quiet] == [0.0] * len(quiet)
    assert (idle["sm_clock"], idle["power"], idle["processes"]) == (345, 70, [])


def test_each_gpu_is_a_card_of_its_own(machine):
    machine.open_reader(STUB_MEMORY="40GiB")
    first, second = machine.read()
    assert first["uuid"] != second["uuid"]
    assert first["pci_bus_id"] != second["pci_bus_id"]
    assert [gpu["forbidden"] for gpu in (first, second)] == ["", ""]
    assert first["memory_bytes"] == 40 << 30
    assert (first["compute_mode"], first["gpm"], first["mig"]) == ("exclusive_process", True, False)


def test_real_processes_are_told_apart_until_they_end(machine):
    machine.open_reader()
    second = machine.read()[1]
    online, offline = machine.start_on("0", *BUSY), machine.start_on("0", *COPYING)
    elsewhere = machine.start_on(second["uuid"], *BUSY)

    here, there = machine.read(job=offline.pid)

    assert {pid: one["side"] for pid, one in processes(here).items()} == {
        online.pid: "online",
        offline.pid: "offline",
    }
    assert processes(here)[offline.pid]["placement_id"] == "job"
    assert processes(here)[offline.pid]["mps"]
    assert here["offline_memory_bytes"] == processes(here)[offline.pid]["memory_bytes"] == 4 * MIB
    assert [one["pid"] for one in there["processes"]] == [elsewhere.pid]

    offline.kill()
    offline.wait()
    here, _ = machine.read(job=offline.pid)
    assert list(processes(here)) == [online.pid]
    assert here["offline_memory_bytes"] == 0


def test_a_fatal_error_is_an_xid_once(machine):
    machine.open_reader()
    assert [gpu["xids"] for gpu in machine.read()] == [[], []]
    machine.run_on("1", "loop", "launch", **FAULT)
    assert [gpu["xids"] for gpu in machine.read()] == [[], [31]]
    assert [gpu["xids"] for gpu in machine.read()] == [[], []]


def test_what_a_test_states_holds_instead(machine):
    machine.state("0 xid 79\n")
    machine.open_reader(STUB_NVML=str(machine.folder / "stated"))
    assert machine.read()[0]["xids"] == []  # it was there before anybody looked
    machine.state("0 xid 79\n0 xid 94\n0 temperature_c 96\n0 clocks_event_reasons 64\n")
    first, second = machine.read()
    assert (first["xids"], first["temperature"]) == ([94], 96)
    assert first["throttled"] == ["hardware thermal slowdown"]
    assert (second["xids"], second["temperature"]) == ([], 32)


@pytest.mark.parametrize(
    ("stated", "field", "value"),
    [("0 mig 1", "mig", True), ("0 compute_mode 2", "compute_mode", "prohibited")],
)
def test_what_a_card_is_can_be_stated(machine, stated, field, value):
    machine.state(stated)
    machine.open_reader(STUB_NVML=str(machine.folder / "stated"))
    first, second = machine.read()
    assert first[field] == value
    assert second[field] != value


def test_a_card_without_gpm_tells_pcie_alone(machine):
    machine.state("0 gpm 0")
    machine.open_reader(STUB_NVML=str(machine.folder / "stated"))
    first, second = machine.read()
    assert "sm_activity" not in first
    assert first["pcie_rx"] == 0.0
    assert second["sm_activity"] == 0.0


def test_a_call_that_fails_to_order_is_a_missing_value_with_its_reason(machine):
    machine.open_reader(STUB_FAIL="nvmlDeviceGetPowerUsage:4")
    first, _ = machine.read()
    assert "power" not in first
    assert "ermission" in first["missing"]["power"]


def test_preflight_runs_on_it(machine, tmp_path):
    command = [sys.executable, "-m", "agents", "preflight", "--json"]
    told = machine.run_on("0", [*command, "--mps-dir", str(tmp_path / "mps")], STUB_GPUS="8")
    gpus = json.loads(told.stdout)["gpus"]
    assert len({gpu["uuid"] for gpu in gpus}) == 8
    assert {gpu["forbidden_by"][0]["fact"] for gpu in gpus} == {"no_daemon"}
