"""This machine as one node, on a stand-in for the library of its driver."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import closing

import pytest

from agents import loop
from agents.collectors.base import Unavailable
from agents.collectors.cgroups import Container
from agents.collectors.nvml import Nvml
from agents.collectors.replay import ReplayCollector
from agents.config import CannotRun
from agents.host import Host, own_cards
from agents.mps import unit
from agents.settings.flags import parse
from agents.state import StateFile
from agents.stub import mps_daemon
from agents.stub.kubernetes_api import FakeKubernetes, pod, serving
from agents.sysmonitor.signals import POSITIONS
from agents.wire.credentials import Credentials
from agents.wire.names import GpuState, Signal
from tests.agents.cast import KEY, desired
from tests.agents.collectors.fake_nvml import OTHER, UUID, Code, FakeCard, FakeNvml, process
from tests.agents.fake_console import TOKEN, FakeConsole, until

pytestmark = pytest.mark.timeout(20)

POD_UID = "2c48913c-b29f-11e7-9350-020968147796"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
KEYS = {"node-01": Credentials("node-01", "1", TOKEN, KEY.hex())}


def config_of(folder, *words, console="ws://127.0.0.1:1/"):
    where = ["--console", console, "--state-dir", str(folder)]
    return parse(["--node", "node-01", "--gpus", "nvml", "--runtime", "process", *where, *words])


@pytest.fixture
def cards(monkeypatch):
    cards = [FakeCard(), FakeCard(OTHER, nvmlDeviceGetMigMode=[1, 1])]
    monkeypatch.setattr("agents.host.Nvml", lambda: Nvml(FakeNvml(*cards)))
    return cards


@pytest.fixture
async def console():
    async with FakeConsole() as console:
        yield console


@pytest.fixture
async def node(tmp_path, console, cards, monkeypatch):
    monkeypatch.setattr("agents.reports.STATUS_PERIOD_S", 0.5)
    words = ("--recording", str(tmp_path / "readings"), "--mps-dir", str(tmp_path / "mps"))
    config = config_of(tmp_path, *words, console=console.url)
    state = StateFile(tmp_path)
    host = Host(config, KEYS, state)
    host.boot()
    await host.open()
    ending = asyncio.Event()
    beat = asyncio.create_task(loop.beat(host, state, ending))
    await until(lambda: console.hellos)
    yield host
    ending.set()
    await beat
    await host.close()
    state.close()


def test_what_a_job_says_and_nobody_understands_ends_no_loop(tmp_path, cards, caplog):
    with closing(StateFile(tmp_path)) as state:
        host = Host(config_of(tmp_path), KEYS, state)
        host._equip().runtime.statements = lambda: 1 / 0
        host.settle(1.0)
        assert "a step for one of its GPUs failed" in caplog.text
        host._collector.close()


async def test_a_real_node_tells_its_cards_and_what_they_show(console, node):
    first, second = console.hellos[0].gpus
    assert (first.uuid, first.source, first.unshareable_fact) == (UUID, "nvml", "")
    assert "MIG" in second.unshareable_fact
    await console.desire(desired())
    shown = await until(
        lambda: [
            sample
            for telemetry in console.telemetry
            for sample in telemetry.samples
            if sample.last[POSITIONS[Signal.SM_ACTIVITY]] is not None
        ]
    )
    assert shown[0].last[POSITIONS[Signal.GPU_UTIL]] == 85.0
    assert shown[0].online_processes == 0
    await until(lambda: console.statuses and console.status.gpus[0].state is GpuState.HEALTHY)


async def test_a_card_is_shareable_once_a_daemon_of_its_own_serves_it(
    console, node, tmp_path, monkeypatch
):
    program = mps_daemon.write_program(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    await console.desire(desired())
    await until(lambda: console.statuses and "no MPS control daemon" in fact_of(console))
    daemon = unit.start_detached(unit.place_of(UUID, tmp_path / "mps"), (str(program),))
    try:
        await until(lambda: fact_of(console) == "")
    finally:
        os.kill(daemon.pid, signal.SIGKILL)


def fact_of(console):
    return console.status.gpus[0].unshareable_fact


async def test_a_card_that_is_lost_is_put_under_quarantine_with_the_reason(console, node, cards):
    await console.desire(desired())
    await until(lambda: console.statuses and console.status.gpus[0].state is GpuState.HEALTHY)
    cards[0].answers["nvmlDeviceGetUtilizationRates"] = Code(15)
    await until(lambda: console.status.gpus[0].state is GpuState.DISABLED)
    assert "lost" in console.status.gpus[0].unshareable_fact


async def test_what_a_real_node_read_is_recorded(tmp_path, console, node):
    await until(lambda: len((tmp_path / "readings").read_bytes().splitlines()) > 2)
    replay = ReplayCollector(tmp_path / "readings")
    assert [card.uuid for card in replay.cards] == [UUID, OTHER]
    assert replay.collect(0.0).gpus[0].values[POSITIONS[Signal.GPU_UTIL]] == 85.0


async def test_online_processes_have_the_names_of_their_pods(tmp_path, cards, monkeypatch):
    token = tmp_path / "token"
    token.write_text("token-1")
    cluster = FakeKubernetes()
    cluster.put(pod("chat-0", POD_UID, namespace="prod"))
    cards[0].answers[COMPUTE] = [process(os.getpid())]
    monkeypatch.setattr("agents.collectors.procfs.cgroups.container", lambda _: Container(POD_UID))
    with serving(cluster) as url, closing(StateFile(tmp_path / "state")) as state:
        words = ("--kubernetes", url, "--kubernetes-token", str(token))
        host = Host(config_of(tmp_path / "state", *words), KEYS, state)
        (found,) = await until(lambda: named(read(host)))
        assert (found.pid, found.known_as) == (os.getpid(), "prod/chat-0")
        await until(lambda: ("kubernetes", True) in succeeded(read(host)))
        await host.close()


def succeeded(reading):
    return {(look.source, look.success) for look in reading.looks}


def read(host):
    host.settle(now := time.monotonic())
    return host._collector.collect(now)


def named(reading):
    return [process for process in reading.gpus[0].processes or () if process.workload]


async def test_a_recording_stands_in_for_the_cards(tmp_path, cards):
    recording = str(tmp_path / "readings")
    with closing(StateFile(tmp_path)) as state:
        host = Host(config_of(tmp_path, "--recording", recording), KEYS, state)
        host._collector.collect(10.0)
        await host.close()
        host = Host(config_of(tmp_path, "--gpus", "replay", "--recording", recording), KEYS, state)
        assert [gpu.index for gpu in host._collector.collect(20.0).gpus] == [0, 1]
        await host.close()


def test_a_machine_without_a_driver_cannot_be_a_real_node(tmp_path, monkeypatch):
    monkeypatch.setattr("agents.host.Nvml", lambda: Nvml(FakeNvml(init=12)))
    with (
        closing(StateFile(tmp_path)) as state,
        pytest.raises(CannotRun, match="install the NVIDIA driver"),
    ):
        Host(config_of(tmp_path), KEYS, state)


def test_a_node_without_credentials_is_named(tmp_path, cards):
    with (
        closing(StateFile(tmp_path)) as state,
        pytest.raises(CannotRun, match="no credentials for node-01"),
    ):
        Host(config_of(tmp_path), {}, state)


def test_an_enrolment_names_the_cards_of_this_machine(cards):
    assert [card.uuid for card in own_cards()] == [UUID, OTHER]


def test_an_enrolment_without_nvidia_ml_py_says_what_to_install(monkeypatch):
    def absent():
        raise Unavailable("install nvidia-ml-py")

    monkeypatch.setattr("agents.host.Nvml", absent)
    with pytest.raises(CannotRun, match="install nvidia-ml-py"):
        own_cards()


@pytest.mark.parametrize(
    ("words", "able"),
    [((), set()), (("--xcuda", "/opt/libxcuda.so"), {"freeze", "duty", "memory_quota"})],
)
def test_a_node_can_hold_jobs_only_where_it_has_the_library(tmp_path, cards, words, able):
    with closing(StateFile(tmp_path)) as state:
        host = Host(config_of(tmp_path, *words), KEYS, state)

        capabilities = host._equip().runtime.capabilities

    assert able == capabilities & {"freeze", "duty", "memory_quota"}
    assert {"sm_share", "terminate_client"} <= capabilities
    host._collector.close()
