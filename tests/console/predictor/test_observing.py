"""What is written down of pairs that run, from telemetry and what nodes report alone."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from agents.wire.ids import uuid7
from agents.wire.names import GpuState
from console.inventory.models import Gpu
from console.policies import services as policies
from console.predictor import observing, window_store
from console.predictor.models import PairObservation, SoloLatency
from console.scheduling import peaks
from console.scheduling.models import Placement
from console.telemetry import live_store
from console.telemetry.latest import LiveGpu
from console.telemetry.models import NodeEvent
from console.workloads.models import OnlineInstance
from tests.console.inventory.cast import GIB, NOW, a_gpu, a_node, a_pool
from tests.console.workloads.cast import a_job, a_service, placed

pytestmark = pytest.mark.django_db

STEP_S = 10


@pytest.fixture(autouse=True)
def world(monkeypatch, settings):
    """The live samples by GPU id, without a Redis."""
    settings.OBSERVATION_WINDOW_S = 60
    samples, kept = {}, {}
    monkeypatch.setattr(live_store, "read", lambda: samples)
    monkeypatch.setattr(peaks, "note", lambda percent_now, at: dict(percent_now))
    monkeypatch.setattr(window_store, "read", lambda: dict(kept))

    def write(windows) -> None:
        kept.clear()
        kept.update(windows)

    monkeypatch.setattr(window_store, "write", write)
    return samples


def a_sample(gpu: Gpu, **values: float) -> dict[int, LiveGpu]:
    nothing = dict.fromkeys((field.name for field in fields(LiveGpu)), None)
    told = {"online_qps": 50.0, "sm_online_percent": 20.0, "online_memory_bytes": 10 * GIB}
    now = {"gpu_id": gpu.pk, "at": 0.0, "age_s": 0.5, "state": GpuState.HEALTHY}
    return {gpu.pk: LiveGpu(**nothing | now | told | values)}


LIMITS = {"effective_sm_share_percent": 60.0, "effective_duty_percent": 60.0}


@pytest.fixture
def pair(world) -> Placement:
    """A job that runs beside search-rank at half its speed; another instance is alone."""
    policies.ensure_defaults(NOW, demo=False)
    node = a_node(pool=a_pool(policy=policies.default_policy()), gpus=2)
    shared, alone = node.gpus.all()
    service = a_service(shared, peak_qps=100, sm_percent=40, gpu_util_percent=60)
    OnlineInstance.objects.create(service=service, gpu=alone)
    world |= a_sample(shared, online_p99_ms=24.0) | a_sample(alone, online_p99_ms=20.0)
    return placed(shared, a_job("bert-7"), observed_throughput=0.5, **LIMITS)


def run_for(placement: Placement, seconds: int, since: int = 0, **facts) -> None:
    """Looked at every ten seconds, while its node goes on telling of it."""
    for after_s in range(since, since + seconds + 1, STEP_S):
        now = NOW + timedelta(seconds=after_s)
        Placement.objects.filter(pk=placement.pk).update(observed_at=now, **facts)
        observing.observe(now)


def test_a_window_of_a_running_pair_is_one_observation(pair):
    run_for(pair, 60)
    row = PairObservation.objects.get()
    assert (row.service, row.family, row.job) == ("search-rank", "bert", "bert-7")
    assert (row.throughput, row.sm_share_percent, row.window_s) == (0.5, 60.0, 60.0)
    assert (row.online_sm_percent, row.online_util_percent) == (20.0, 30.0)
    assert row.job_memory_percent == pytest.approx(20.0)
    assert row.card == "simulated:A100"


def test_more_pairs_cost_no_more_queries(pair, django_assert_max_num_queries):
    service = pair.gpu.instances.get().service
    for index in range(2, 8):
        gpu = a_gpu(pair.gpu.node, index)
        OnlineInstance.objects.create(service=service, gpu=gpu)
        placed(gpu, observed_throughput=0.5, **LIMITS)
    with django_assert_max_num_queries(16):
        observing.observe(NOW)


def test_p99_is_told_against_the_same_load_without_a_neighbour(pair):
    run_for(pair, 60)
    assert PairObservation.objects.get().p99_ratio == pytest.approx(1.2)
    base = SoloLatency.objects.get()
    assert (base.p99_ms, base.load_step, base.samples) == (20.0, 10, 7)


def test_p99_at_a_load_that_was_never_seen_alone_is_not_known(pair, world):
    world |= a_sample(pair.gpu, online_qps=90.0, online_p99_ms=50.0)
    run_for(pair, 60)
    assert PairObservation.objects.get().p99_ratio is None


def test_a_freeze_too_short_for_any_status_spoils_the_window(pair):
    NodeEvent.objects.create(
        event_id=uuid7(),
        node=pair.gpu.node,
        seq=1,
        kind="frozen",
        at=NOW + timedelta(seconds=33),
        received_at=NOW,
        gpu=pair.gpu,
        placement_id=pair.pk,
    )
    run_for(pair, 60)
    assert not PairObservation.objects.exists()


def test_a_frozen_job_is_not_observed_and_begins_anew(pair):
    run_for(pair, 40)
    run_for(pair, 10, since=50, state="FROZEN")
    thawed = NOW + timedelta(seconds=70)
    run_for(pair, 50, since=70, state="RUNNING", state_since=thawed)
    assert not PairObservation.objects.exists()
    run_for(pair, 10, since=130)
    assert PairObservation.objects.get().at == thawed


def test_a_gpu_without_live_samples_is_not_observed(pair, world):
    run_for(pair, 40)
    world.clear()
    run_for(pair, 40, since=50)
    assert not PairObservation.objects.exists()


def test_a_job_without_a_neighbour_is_no_pair(pair):
    OnlineInstance.objects.filter(gpu=pair.gpu).delete()
    run_for(pair, 60)
    assert not PairObservation.objects.exists()


def test_rare_pairs_are_written_before_frequent_ones(pair, monkeypatch):
    monkeypatch.setattr(observing, "MOST_WRITTEN", 1)
    run_for(pair, 60)
    other = pair.gpu.node.gpus.exclude(pk=pair.gpu_id).get()
    placed(other, a_job("gpt-1"), observed_throughput=0.3, **LIMITS)
    for after_s in range(70, 141, STEP_S):
        now = NOW + timedelta(seconds=after_s)
        Placement.objects.update(observed_at=now)
        observing.observe(now)
    assert [row.family for row in PairObservation.objects.order_by("pk")] == ["bert", "gpt"]
