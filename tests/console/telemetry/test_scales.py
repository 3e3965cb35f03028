from __future__ import annotations

from dataclasses import replace

import pytest

from agents.wire.names import Signal
from agents.wire.policy import BALANCED
from console.figures import NBSP
from console.telemetry.scales import GIB, Card, Scale, scales

CARD = Card(memory_bytes=80 * GIB, power_limit_w=400, sm_clock_max_mhz=1410, slo_p99_ms=40)


def scale(signal: Signal, card: Card = CARD, reserve: float | None = 5.0) -> Scale:
    return next(one for one in scales(card, BALANCED, reserve) if one.signal is signal)


def test_limits_stand_in_the_unit_that_is_read():
    p99, power = scale(Signal.ONLINE_P99), scale(Signal.POWER)
    assert (p99.slo, p99.evict_at) == (40, 40 * BALANCED[Signal.ONLINE_P99].upper)
    assert power.evict_at == pytest.approx(400 * BALANCED[Signal.POWER].upper / 100)
    assert power.most == 400


def test_the_memory_limit_is_what_the_reserve_leaves_when_that_is_less():
    assert scale(Signal.MEMORY, reserve=20.0).evict_at == pytest.approx(64)
    assert scale(Signal.MEMORY).shown(40 * GIB) == 40


def test_headroom_says_how_far_and_when_it_is_over():
    p99 = scale(Signal.ONLINE_P99)
    assert p99.headroom(48) == f"{p99.evict_at - 48:.0f}{NBSP}ms"
    assert p99.headroom(p99.evict_at + 3) == f"over by 3{NBSP}ms"
    assert p99.headroom(None) == ""


def test_a_percent_is_points_away():
    assert scale(Signal.SM_ACTIVITY).headroom(90).endswith("points")


def test_a_clock_is_worse_when_it_is_lower_and_says_nothing_when_idle():
    clock = scale(Signal.SM_CLOCK)
    assert clock.headroom(clock.evict_at - 100) == f"over by 100{NBSP}MHz"
    assert clock.headroom(300, idle=True) == "idle, not judged"


@pytest.mark.parametrize(
    ("signal", "card", "text"),
    [
        (Signal.ONLINE_P99, Card(None, None, None, None), "no SLO here"),
        (Signal.POWER, Card(None, None, None, None), "evict at 98\u00a0%"),
        (Signal.GPU_UTIL, CARD, "not in the policy"),
    ],
)
def test_a_limit_that_cannot_be_placed_is_told_in_words(signal, card, text):
    one = scale(signal, card)
    assert one.evict_at is None
    assert one.headroom(50) == text


def test_without_a_policy_there_are_no_limits():
    assert all(one.evict_at is None for one in scales(CARD, {}, None))


def test_a_signal_without_a_scale_of_its_own_has_no_bar():
    assert scale(Signal.PCIE_RX).most is None


def test_pcie_is_measured_by_what_its_slot_can_carry():
    pcie = scale(Signal.PCIE_RX, replace(CARD, pcie_max_bytes_s=32e9))
    assert (pcie.most, pcie.shown(8e9)) == (32, 8)
