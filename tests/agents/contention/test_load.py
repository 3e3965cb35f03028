from __future__ import annotations

import numpy as np
import pytest

from agents.contention.cluster import build_cluster
from agents.contention.load import DAY_S, Load, daily, spike_shape

SERVICES = build_cluster(4, 8, seed=1).services
# Two GPUs of the first service, one of the second, one free.
SERVICE_OF = np.array([0, 0, 1, len(SERVICES)], np.int32)


def load(seed=1):
    return Load(SERVICES, SERVICE_OF, np.random.default_rng(seed))


def test_a_day_has_one_peak_and_one_trough():
    hours = np.arange(0.0, DAY_S, 3_600.0)
    low, high, trough = np.array([0.3]), np.array([0.9]), np.array([4 * 3_600.0])
    curve = np.array([daily(low, high, trough, hour)[0] for hour in hours])
    assert hours[curve.argmin()] == 4 * 3_600.0
    assert hours[curve.argmax()] == 16 * 3_600.0
    assert (curve.min(), curve.max()) == pytest.approx((0.3, 0.9))


def test_a_free_gpu_has_no_load():
    assert load().step(0.0, 0.0, 0.0)[3] == 0.0


def test_the_same_seed_gives_the_same_load():
    assert np.array_equal(load().step(1.0, 60.0, 1.0), load().step(1.0, 60.0, 1.0))


def test_a_spike_hits_its_service_alone_at_once_and_passes():
    one = load()
    before = one.step(0.0, 0.0, 0.0)
    one.spike(0, factor=3.0, duration_s=20.0, now_s=10.0)
    during = one.step(10.0, 600.0, 0.0)
    assert np.all(during[:2] > 2.5 * before[:2])
    assert during[2] < 1.5 * before[2]
    assert one.step(31.0, 600.0, 0.0)[0] < 1.5 * before[0]


def test_a_spike_at_night_is_as_large_as_one_by_day():
    night_s = 14.5 * 3_600.0  # half past three in the morning, from the start at one
    one = load()
    quiet = one.step(0.0, night_s, 0.0)[0]
    one.spike(0, factor=2.5, duration_s=20.0, now_s=0.0)
    assert one.step(0.0, night_s, 0.0)[0] > 3.0 * quiet


def test_a_spike_has_a_plateau_and_a_tail():
    shape = spike_shape(np.array([-0.1, 0.0, 0.29, 0.65, 0.99, 1.0]))
    assert shape[:3].tolist() == [0.0, 1.0, 1.0]
    assert 0.2 < shape[3] < 0.3
    assert shape[5] == 0.0
