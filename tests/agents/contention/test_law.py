from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contention.law import Offline, Online, contend, latency, share_rate

ONE = np.ones(1, np.float32)


def column(value):
    return np.array([value], np.float32)


def outcome(load=0.8, share=0.6, duty=0.6, sm=0.3, guest_sm=0.55, effect=1.0, guest_bandwidth=0.3):
    online = Online(column(load), column(sm), column(0.7 if sm else 0.0), column(0.24 * (sm > 0)))
    offline = Offline(
        column(guest_sm), column(0.9), column(guest_bandwidth), column(share), column(duty)
    )
    return contend(online, offline, effect * ONE, effect * ONE)


def test_online_alone_is_not_slowed_and_is_itself_at_peak():
    alone = outcome(load=1.0, duty=0.0)
    assert alone.slowdown[0] == 1.0
    assert alone.p99[0] == pytest.approx(1.0)
    assert alone.online_sm[0] == pytest.approx(0.3)


def test_a_job_alone_on_the_card_runs_at_full_speed():
    assert outcome(load=0.0, sm=0.0, share=1.0, duty=1.0).throughput[0] == pytest.approx(1.0)


def test_a_job_that_is_held_does_nothing_and_harms_nobody():
    held = outcome(duty=0.0)
    assert (held.throughput[0], held.offline_sm[0], held.slowdown[0]) == (0.0, 0.0, 1.0)


def test_sharing_raises_sm_activity_more_than_utilisation_tells():
    alone, shared = outcome(duty=0.0), outcome()
    assert shared.sm[0] > 1.8 * alone.sm[0]
    assert shared.util[0] < 1.8 * alone.util[0]


def test_more_duty_gives_more_throughput_and_more_harm():
    low, high = outcome(duty=0.3), outcome(duty=0.9)
    assert high.throughput[0] > low.throughput[0]
    assert high.slowdown[0] > low.slowdown[0]


def test_complementary_shares_harm_less_than_overlapping_ones():
    complement, overlap = outcome(share=0.5, sm=0.3), outcome(share=1.0, sm=0.3, guest_sm=0.8)
    assert complement.slowdown[0] < 1.15 < overlap.slowdown[0]


def test_memory_bandwidth_hurts_beyond_what_it_adds():
    light, heavy = outcome(guest_bandwidth=0.1), outcome(guest_bandwidth=0.9)
    assert heavy.slowdown[0] > light.slowdown[0]


def test_a_hidden_effect_scales_the_harm():
    plain, harsh = outcome(), outcome(effect=2.0)
    assert harsh.slowdown[0] - 1.0 == pytest.approx(2.0 * (plain.slowdown[0] - 1.0), rel=1e-4)


def test_latency_grows_faster_than_load_and_stays_bounded():
    loads = np.array([0.5, 1.0, 1.5, 2.0, 50.0], np.float32)
    p99 = latency(loads, np.ones_like(loads))
    assert np.all(np.diff(p99) >= 0.0)
    assert p99[2] > 2.0 * p99[1]
    assert p99[-1] < 10.0


def test_throughput_rises_with_the_share_and_saturates():
    shares = np.array([0.1, 0.2, 0.6, 1.0], np.float32)
    rate = share_rate(np.full(4, 0.6, np.float32), shares)
    assert rate[1] == pytest.approx(2.0 * rate[0], rel=0.02)
    assert rate[2] < 0.9
    assert rate[3] == pytest.approx(1.0)


PART = st.floats(0.0, 1.0)


@given(st.floats(0.0, 5.0), PART, PART, PART, PART, st.floats(0.5, 2.0))
def test_every_part_of_a_gpu_stays_a_part(load, share, duty, sm, guest_sm, effect):
    found = outcome(load, max(share, 0.01), duty, sm, guest_sm, effect)
    for part in (found.online_sm, found.offline_sm, found.sm, found.util, found.bandwidth):
        assert 0.0 <= part[0] <= 1.0
    assert found.slowdown[0] >= 1.0
    assert 0.0 <= found.throughput[0] <= 1.001
    assert np.isfinite(found.p99[0])
