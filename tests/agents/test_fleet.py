"""A fleet of one simulated node in this process, and the faults it is asked for."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from pathlib import Path

import pytest

from agents import loop
from agents.faults_server import serve_faults
from agents.fleet import CannotRun, Fleet, load_cluster
from agents.settings.flags import parse
from agents.state import StateFile
from agents.wire import cluster as cluster_file
from agents.wire import faults
from agents.wire.cluster import (
    Cluster,
    ClusterGpu,
    ClusterInstance,
    ClusterNode,
    ClusterService,
)
from agents.wire.credentials import Credentials
from agents.wire.names import EndReason, EventKind, GpuState, PlacementState, RuntimeKind
from tests.agents.cast import KEY, desired, placement
from tests.agents.fake_console import TOKEN, FakeConsole, until

pytestmark = pytest.mark.timeout(20)

MODEL = "NVIDIA A100-SXM4-80GB"
CLUSTER = Cluster(
    "lab",
    (
        ClusterNode(
            "node-01", "lab", tuple(ClusterGpu(f"GPU-{n}", MODEL, 80 << 30) for n in range(2))
        ),
        ClusterNode("node-17", "lab", (), runtime=RuntimeKind.PROCESS),
    ),
    (
        ClusterService(
            name="search",
            team="search",
            pool="lab",
            tier=1,
            slo_p99_ms=100,
            peak_qps=200,
            base_p99_ms=30,
            sm_percent=30,
            gpu_util_percent=50,
            memory_bytes=20 << 30,
            memory_bandwidth_percent=20,
            instances=(ClusterInstance("node-01", 0), ClusterInstance("node-17", 0)),
        ),
    ),
)
KEYS = {"node-01": Credentials("node-01", "17", TOKEN, KEY.hex())}


def config_of(folder: Path, console="ws://127.0.0.1:1/"):
    (folder / "cluster.json").write_bytes(cluster_file.encode(CLUSTER))
    words = ["--simulate", "nodes=1,gpus=2", "--cluster", str(folder / "cluster.json")]
    return parse([*words, "--console", console, "--state-dir", str(folder), "--clock", "60"])


@pytest.fixture
async def console():
    async with FakeConsole() as console:
        yield console


@pytest.fixture
async def fleet(tmp_path, console, monkeypatch):
    monkeypatch.setattr("agents.reports.STATUS_PERIOD_S", 0.5)
    monkeypatch.setattr("agents.link.FIRST_RETRY_S", 0.1)  # back before any fault is over
    config = config_of(tmp_path, console.url)
    state = StateFile(tmp_path)
    fleet = Fleet(config, load_cluster(config), KEYS, state)
    fleet.boot()
    server = await serve_faults(tmp_path / "faults.sock", fleet)
    ending = asyncio.Event()
    beat = asyncio.create_task(loop.beat(fleet, state, ending))
    await until(lambda: console.hellos)
    yield fleet
    ending.set()
    await beat
    server.close()
    await fleet.close()
    state.close()


@pytest.fixture
async def ask(tmp_path, fleet):
    """Sends a line to the socket of faults and reads the answer."""
    reader, writer = await asyncio.open_unix_connection(tmp_path / "faults.sock")

    async def ask(fault):
        writer.write(fault if isinstance(fault, bytes) else faults.encode(fault))
        return faults.decode_answer(await reader.readline())

    yield ask
    writer.close()
    await writer.wait_closed()


async def run_a_job(console, **changes):
    await console.desire(desired(placement(**changes)))
    await until(
        lambda: (
            console.statuses
            and [p for p in console.status.placements if p.state is PlacementState.RUNNING]
        )
    )


async def test_a_simulated_job_gets_on(console, fleet):
    await run_a_job(console)
    await until(lambda: (console.status.placements[0].progress or 0) > 0)
    sample = await until(
        lambda: [s for t in console.telemetry for s in t.samples if s.sm_offline_percent]
    )
    assert sample[0].index == 0


async def test_a_node_that_lost_power_comes_back_without_its_jobs(console, ask):
    await run_a_job(console)
    answer = await ask(faults.KillNode("node-01", down_s=0.5))
    assert answer.ok
    await until(lambda: len(console.hellos) == 2)
    before, after = console.hellos
    assert before.boot_id != after.boot_id
    ended = await until(lambda: [e for e in console.events if e.kind is EventKind.PLACEMENT_ENDED])
    assert ended[0].data["reason"] == EndReason.LOST


async def test_a_node_that_is_down_cannot_lose_power_again(console, ask):
    await ask(faults.KillNode("node-01", down_s=0.5))
    answer = await ask(faults.KillNode("node-01", down_s=0.5))
    assert "down already" in answer.error
    await until(lambda: len(console.hellos) == 2)


async def test_a_node_cut_from_the_console_lives_on(console, ask):
    await run_a_job(console)
    assert (await ask(faults.CutConsole("node-01", duration_s=0.5))).ok
    await until(lambda: len(console.hellos) == 2)
    assert console.hellos[0].boot_id == console.hellos[1].boot_id
    assert not [e for e in console.events if e.kind is EventKind.PLACEMENT_ENDED]


async def test_a_gpu_error_puts_the_gpu_under_quarantine(console, ask):
    await console.desire(desired())
    await until(lambda: console.statuses and console.status.gpus[1].state is GpuState.HEALTHY)
    assert (await ask(faults.GpuError("node-01", 1, xid=79))).ok
    await until(lambda: console.status.gpus[1].state is GpuState.DISABLED)
    assert console.status.gpus[0].state is GpuState.HEALTHY


async def test_a_spike_names_the_service_it_hits(ask):
    answer = await ask(faults.TrafficSpike(factor=3, duration_s=5, service="search"))
    assert answer.detail == "The load of search is 3 times as high for 5 s."


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (faults.KillNode("node-99"), "no node 'node-99'"),
        (faults.CutConsole("node-99"), "no node 'node-99'"),
        (faults.GpuError("node-01", 8), "no GPU 8"),
        (faults.TrafficSpike(service="nobody"), "nobody"),
        (b'{"type": "meteor"}\n', "meteor"),
        (b"not json\n", "malformed"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_the_reason(ask, fault, why):
    answer = await ask(fault)
    assert not answer.ok
    assert why in answer.error


async def test_only_the_owner_may_ask_for_faults(tmp_path, fleet):
    assert stat.S_IMODE((tmp_path / "faults.sock").stat().st_mode) == 0o600


def test_a_fleet_takes_its_own_nodes_and_their_instances_only(tmp_path):
    part = load_cluster(config_of(tmp_path))
    assert [node.name for node in part.nodes] == ["node-01"]
    assert part.services[0].instances == (ClusterInstance("node-01", 0),)


def test_a_node_without_credentials_is_named(tmp_path):
    config, state = config_of(tmp_path), StateFile(tmp_path)
    with pytest.raises(CannotRun, match="no credentials for node-01"):
        Fleet(config, load_cluster(config), {}, state)
    state.close()


def test_a_cluster_file_that_is_none_is_named(tmp_path):
    config = config_of(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"nodes": 3}))
    with pytest.raises(CannotRun, match="is not a cluster file"):
        load_cluster(config)


async def test_a_storm_ends_with_every_node_back(console, ask):
    assert (await ask(faults.Storm())).ok
    await until(lambda: len(console.hellos) == 2)


async def test_a_silent_node_stays_connected_and_speaks_again(console, ask):
    await until(lambda: console.telemetry)
    assert (await ask(faults.Silence(duration_s=3.0))).ok
    heard = len(console.telemetry)
    await asyncio.sleep(1.3)
    assert len(console.telemetry) <= heard + 1
    await until(lambda: len(console.telemetry) > heard + 1)
    assert len(console.hellos) == 1


async def test_a_clock_that_is_ahead_is_right_again_afterwards(console, ask):
    await until(lambda: console.telemetry)
    await ask(faults.Skew(600.0, duration_s=1.2))
    await until(lambda: console.telemetry[-1].sent_at > time.time() + 500)
    await until(lambda: console.telemetry[-1].sent_at < time.time() + 1)


async def test_two_gpus_of_one_uuid_are_two_again_afterwards(console, fleet):
    fleet.mischief.duplicate(fleet.berths["node-01"], 1, "GPU-0", duration_s=1.5)
    told = await until(lambda: len(console.hellos) == 3 and console.hellos)
    uuids = [[gpu.uuid for gpu in hello.gpus] for hello in told]
    assert uuids == [["GPU-0", "GPU-1"], ["GPU-0", "GPU-0"], ["GPU-0", "GPU-1"]]


async def test_a_duplicate_of_what_is_not_there_is_refused(ask):
    assert not (await ask(faults.DuplicateUuid("node-01", "node-99"))).ok


async def test_a_connection_that_flaps_settles(console, ask):
    await ask(faults.Flapping(period_s=0.6, duration_s=0.3))
    await until(lambda: len(console.hellos) == 2)


async def test_a_lie_ends(fleet, ask):
    assert (await ask(faults.Lies(faults.Lie.TORN, duration_s=0.1))).ok
    berth = fleet.berths["node-01"]
    assert berth.twist is not None
    await until(lambda: berth.twist is None)


async def test_a_fault_without_an_end_is_refused(ask):
    assert not (await ask(b'{"type":"silence","duration_s":1e9}\n')).ok
