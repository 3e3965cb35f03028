"""What services use, from the samples of their instances."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from console.workloads import digest, service_profiles
from console.workloads.models import OnlineInstance, ServiceProfile
from tests.console.inventory.cast import GIB, NOW, a_gpu, a_node
from tests.console.scheduling.cast import live
from tests.console.workloads.cast import a_service, placed

BUSY = {
    "sm_online_percent": 30.0,
    "gpu_util_percent": 70.0,
    "memory_bandwidth_percent": 22.0,
    "sm_occupancy_percent": 18.0,
    "online_memory_bytes": 20.0 * GIB,
    "online_qps": 400.0,
    "online_p99_ms": 21.0,
}


def test_a_quantile_of_counts_is_near_the_true_one():
    rng = random.Random(3)
    values = [rng.uniform(5, 60) for _ in range(5_000)]
    counts: dict = {}
    digest.add(counts, "sm_percent", values)
    true = sorted(values)[int(0.95 * len(values))]
    assert true * 0.99 <= digest.quantile(counts, "sm_percent", 0.95) <= true * 1.02


def test_what_is_no_value_counts_for_nothing():
    counts: dict = {}
    digest.add(counts, "qps", [None, float("nan"), float("inf"), -1.0])
    assert digest.quantile(counts, "qps", 0.5) is None
    digest.add(counts, "qps", [0.0])
    assert digest.quantile(counts, "qps", 0.5) == 0.0


def test_what_was_long_ago_is_forgotten():
    counts: dict = {}
    digest.add(counts, "sm_percent", [90.0] * 100)
    counts = digest.faded(counts, digest.HALF_LIFE * 5)
    digest.add(counts, "sm_percent", [20.0] * 100)
    assert digest.quantile(counts, "sm_percent", 0.95) < 25
    assert digest.faded(counts, digest.HALF_LIFE * 50) == {"sm_percent": {}}


@pytest.fixture
def gpu(db):
    return a_gpu(a_node())


def test_a_profile_is_of_one_gpu_model(gpu):
    other = a_gpu(gpu.node, 1, model="A10")
    service = a_service(gpu)
    OnlineInstance.objects.create(service=service, gpu=other)
    samples = live(gpu, **BUSY) | live(other, **BUSY | {"sm_online_percent": 60.0})
    assert service_profiles.watch(samples, NOW) == 2
    found = {row.gpu_model: row.sm_percent for row in ServiceProfile.objects.all()}
    assert found == pytest.approx({"A100": 30, "A10": 60}, rel=0.012)


def test_beside_a_guest_only_its_own_side_counts(gpu):
    a_service(gpu)
    service_profiles.watch(live(gpu, **BUSY), NOW)
    placed(gpu)
    beside = BUSY | {"gpu_util_percent": 99.0, "online_p99_ms": 90.0, "sm_online_percent": 50.0}
    for second in range(20):
        service_profiles.watch(live(gpu, **beside), NOW + timedelta(seconds=second))
    profile = ServiceProfile.objects.get()
    assert profile.gpu_util_percent < 75
    assert profile.p99_ms < 25
    assert profile.sm_percent > 49


def test_few_samples_or_old_ones_do_not_decide(gpu):
    service = a_service(gpu)
    service_profiles.watch(live(gpu, **BUSY), NOW)
    assert service_profiles.measured([service.pk], NOW) == {}
    ServiceProfile.objects.update(samples=service_profiles.ENOUGH_SAMPLES)
    assert set(service_profiles.measured([service.pk], NOW)) == {(service.pk, "A100")}
    assert service_profiles.measured([service.pk], NOW + timedelta(days=8)) == {}


def test_a_gpu_that_two_share_or_that_is_silent_tells_of_neither(gpu):
    service = a_service(gpu)
    assert service_profiles.watch(live(gpu, age_s=60.0, **BUSY), NOW) == 0
    OnlineInstance.objects.create(service=service, gpu=gpu)
    assert service_profiles.watch(live(gpu, **BUSY), NOW) == 0


def test_the_number_of_queries_does_not_grow(gpu, django_assert_max_num_queries):
    gpus = [gpu, *(a_gpu(gpu.node, index) for index in range(1, 8))]
    service = a_service(gpus[0])
    for one in gpus[1:]:
        OnlineInstance.objects.create(service=service, gpu=one)
    with django_assert_max_num_queries(6):
        service_profiles.watch(live(*gpus, **BUSY), NOW)
