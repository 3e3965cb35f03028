"""What the governed GPUs measure now, and which nodes have applied the policy."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any

import pytest

from agents.wire.names import GpuState, Signal
from console.errors import Unavailable
from console.inventory.models import Gpu, Node
from console.policies import fleet
from console.telemetry import live_store
from console.telemetry.latest import LiveGpu
from console.workloads.models import OnlineInstance, OnlineService, Team
from tests.console.inventory.cast import GIB, a_node, a_pool
from tests.console.policies.cast import a_policy

pytestmark = pytest.mark.django_db


def a_sample(gpu: Gpu, age_s: float = 0.5, **values) -> LiveGpu:
    known: dict[str, Any] = {
        "gpu_id": gpu.pk,
        "at": time.time(),
        "age_s": age_s,
        "state": GpuState.HEALTHY,
    }
    missing: dict[str, Any] = {field.name: None for field in fields(LiveGpu)}
    return LiveGpu(**missing | known | values)


@pytest.fixture
def live(monkeypatch):
    samples: dict[int, LiveGpu] = {}
    monkeypatch.setattr(live_store, "read", lambda: samples)
    return samples


def test_readings_are_in_policy_units(live):
    policy = a_policy(gpus=1)
    gpu = Gpu.objects.get()
    Gpu.objects.update(power_limit_w=400, sm_clock_max_mhz=1_410, pcie_max_bytes_s=32e9)
    team = Team.objects.create(name="search")
    service = OnlineService.objects.create(
        name="rank", team=team, pool=a_pool(), slo_p99_ms=40, sm_percent=40,
        gpu_util_percent=60, memory_bytes=GIB,
    )  # fmt: skip
    OnlineInstance.objects.create(service=service, gpu=gpu)
    live[gpu.pk] = a_sample(
        gpu, online_p99_ms=60.0, power_w=200.0, sm_clock_mhz=705.0, memory_percent=70.0,
        pcie_rx_bytes_s=8e9,
    )  # fmt: skip
    readings = fleet.readings(policy)
    assert readings.values == {
        Signal.ONLINE_P99: [1.5],
        Signal.POWER: [50.0],
        Signal.SM_CLOCK: [50.0],
        Signal.MEMORY: [70.0],
        Signal.PCIE_RX: [25.0],
    }


def test_a_missing_value_is_not_zero_and_an_old_one_does_not_count(live):
    policy = a_policy(gpus=3)
    first, second, _ = Gpu.objects.all()
    live[first.pk] = a_sample(first)
    live[second.pk] = a_sample(second, age_s=60, memory_percent=99.0)
    readings = fleet.readings(policy)
    assert (readings.gpus, readings.live, readings.values) == (3, 1, {})


def test_without_redis_there_is_no_data_and_the_page_still_works(monkeypatch):
    def away() -> dict[int, LiveGpu]:
        raise Unavailable("Redis does not answer")

    monkeypatch.setattr(live_store, "read", away)
    assert fleet.readings(a_policy(gpus=2)) == fleet.Readings(2, 0, {})


def test_those_past_a_limit_are_counted_on_its_bad_side():
    readings = fleet.Readings(3, 3, {Signal.MEMORY: [80.0, 90.0, 95.0]})
    assert readings.beyond(Signal.MEMORY, 90.0, is_reversed=False) == 1
    assert readings.beyond(Signal.MEMORY, 90.0, is_reversed=True) == 1
    assert readings.beyond(Signal.POWER, 90.0, is_reversed=False) == 0


@pytest.mark.parametrize(
    ("observed", "version"),
    [({"balanced@3": 3}, 3), ({"balanced@2": 2, "balanced@3": 3}, 3), ({"aggressive@9": 9}, None)],
)
def test_a_node_names_a_policy_by_slug_and_number(observed, version):
    assert fleet.reported(Node(observed_policies=observed), "balanced") == version


def test_applied_names_those_that_are_behind():
    policy = a_policy()
    a_node("node-02", a_pool(), observed_policies={"balanced@1": 1})
    a_node("node-03", a_pool(), source="imported")
    applied = fleet.applied(policy)
    assert (applied.number, applied.total, applied.on_it) == (1, 2, 1)
    assert [(str(node), version) for node, version in applied.behind] == [("node-01", None)]
    Node.objects.update(observed_policies={"balanced@1": 1})
    assert fleet.applied(policy).is_everywhere


def test_the_default_policy_governs_pools_without_one():
    policy = a_policy()
    a_node("node-02", a_pool("late"), gpus=2)
    assert fleet.governed(policy) == 2
