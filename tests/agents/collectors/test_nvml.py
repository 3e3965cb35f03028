from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.collectors.base import Unavailable
from agents.collectors.card import judged
from agents.collectors.nvml import Nvml, PcieSource, SignalSource, throttled
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal
from tests.agents.collectors.fake_nvml import (
    GIB,
    OTHER,
    UUID,
    Code,
    FakeCard,
    FakeNvml,
    Gone,
    memory_v1,
    memory_v2,
)

NOT_SUPPORTED, NO_PERMISSION, LOST, RESET, UNKNOWN = 3, 4, 15, 16, 999


def opened(*cards):
    library = FakeNvml(*cards)
    return library, SignalSource(Nvml(library))


def value(finding, signal):
    return finding.values[POSITIONS[signal]]


def test_a_card_is_described_with_what_its_percentages_are_taken_of():
    (card,) = Nvml(FakeNvml(FakeCard())).cards()
    assert (card.uuid, card.memory_bytes, card.driver) == (UUID, 80 * GIB, "590.48.01")
    assert card.compute_mode == "exclusive_process"
    assert card.facts.sm_clock_max_mhz == 1980.0
    assert card.facts.power_limit_w == 700.0
    assert card.facts.pcie_max_bytes_s == pytest.approx(63e9, rel=0.01)
    assert card.inventory.source == "nvml"
    assert card.gpm


def test_what_a_card_does_not_say_of_itself_is_missing():
    refuses = dict.fromkeys(
        (
            "nvmlDeviceGetMaxClockInfo",
            "nvmlDeviceGetEnforcedPowerLimit",
            "nvmlDeviceGetMaxPcieLinkGeneration",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetComputeMode",
            "nvmlGpmQueryDeviceSupport",
        ),
        Code(NOT_SUPPORTED),
    )
    (card,) = Nvml(FakeNvml(FakeCard(**refuses))).cards()
    assert card.facts.power_limit_w is card.facts.sm_clock_max_mhz is None
    assert card.facts.pcie_max_bytes_s is None
    assert not card.mig
    assert not card.gpm


FORBIDDEN = {
    "MIG": ({"nvmlDeviceGetMigMode": [1, 1]}, "MIG is enabled"),
    "MIG until a reset": ({"nvmlDeviceGetMigMode": [1, 0]}, "MIG is enabled"),
    "a part of a MIG card": ({"nvmlDeviceGetUUID": f"MIG-{UUID[4:]}"}, "MIG is enabled"),
    "MIG unknown": ({"nvmlDeviceGetMigMode": Code(UNKNOWN)}, "whether MIG is enabled"),
    "MIG not for this user": ({"nvmlDeviceGetMigMode": Code(NO_PERMISSION)}, "whether MIG"),
    "MIG of nonsense": ({"nvmlDeviceGetMigMode": [7, 7]}, "whether MIG is enabled"),
    "compute mode": ({"nvmlDeviceGetComputeMode": 2}, "compute mode prohibits"),
    "no memory size": ({"nvmlDeviceGetMemoryInfo": Code(NO_PERMISSION)}, "memory size"),
    "no SM activity": (
        {"nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=0)},
        "no source of SM activity",
    ),
    "masked UUID": (
        {"nvmlDeviceGetUUID": "GPU-00000000-0000-0000-0000-000000000000"},
        "no UUID",
    ),
    "no UUID": ({"nvmlDeviceGetUUID": Code(UNKNOWN)}, "no UUID"),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_a_card_that_may_not_be_shared_says_why(kind):
    answers, words = FORBIDDEN[kind]
    (card,) = judged(Nvml(FakeNvml(FakeCard(**answers))).cards(), sm_activity_elsewhere=False)
    assert words in card.forbidden


@pytest.mark.parametrize("answer", [[0, 0], [0, 1], Code(NOT_SUPPORTED), Gone()])
def test_a_card_without_mig_is_no_less_for_it(answer):
    cards = Nvml(FakeNvml(FakeCard(nvmlDeviceGetMigMode=answer))).cards()
    assert judged(cards, sm_activity_elsewhere=False)[0].forbidden == ""


def test_dcgm_makes_up_for_a_card_without_gpm():
    cards = Nvml(FakeNvml(FakeCard(nvmlGpmQueryDeviceSupport=Code(13)))).cards()
    assert judged(cards, sm_activity_elsewhere=True)[0].forbidden == ""


def test_two_cards_of_one_uuid_are_both_unshareable():
    cards = judged(Nvml(FakeNvml(FakeCard(), FakeCard(), FakeCard(OTHER))).cards(), True)
    assert [bool(card.forbidden) for card in cards] == [True, True, False]
    assert UUID in cards[0].forbidden


def test_the_cheap_signals_come_in_wire_units():
    _, source = opened(FakeCard())
    found = source.look(0.0)[UUID]
    assert value(found, Signal.GPU_UTIL) == 85.0
    assert value(found, Signal.MEMORY) == 31.0 * GIB
    assert value(found, Signal.SM_CLOCK) == 1755.0
    assert value(found, Signal.TEMPERATURE) == 52.0
    assert value(found, Signal.POWER) == pytest.approx(627.32)
    assert value(found, Signal.XID) == 0.0
    assert value(found, Signal.SM_ACTIVITY) is None
    assert found.throttled == ("power cap",)


def test_the_time_share_of_the_memory_controller_is_not_taken_for_bandwidth():
    _, source = opened(FakeCard())
    assert value(source.look(0.0)[UUID], Signal.MEMORY_BANDWIDTH) is None


@pytest.mark.parametrize(
    "memory",
    [
        memory_v2(80 * GIB, 30 * GIB, 1 * GIB),
        memory_v1(80 * GIB, 31 * GIB),
    ],
    ids=["version 2", "version 1"],
)
def test_memory_that_the_driver_keeps_counts_as_used(memory):
    _, source = opened(FakeCard(nvmlDeviceGetMemoryInfo=memory))
    assert value(source.look(0.0)[UUID], Signal.MEMORY) == 31.0 * GIB


@pytest.mark.parametrize(
    ("total", "used"),
    [(80 * GIB, 81 * GIB), (80 * GIB, (1 << 64) - 1), (0, 0), ((1 << 64) - 1, 5)],
    ids=["over the card", "all bits set", "no card", "a size of all bits set"],
)
def test_memory_that_cannot_be_is_missing(total, used):
    _, source = opened(FakeCard(nvmlDeviceGetMemoryInfo=memory_v1(total, used)))
    assert value(source.look(0.0)[UUID], Signal.MEMORY) is None


def test_an_older_driver_is_asked_in_its_own_form_from_then_on():
    library, source = opened(
        FakeCard(
            nvmlDeviceGetTemperatureV=Gone(),
            nvmlDeviceGetTemperature=61,
            nvmlDeviceGetCurrentClocksEventReasons=Gone(),
            nvmlDeviceGetCurrentClocksThrottleReasons=0x40,
        )
    )
    for now in range(3):
        found = source.look(float(now))[UUID]
    assert value(found, Signal.TEMPERATURE) == 61.0
    assert found.throttled == ("hardware thermal slowdown",)
    assert library.calls["nvmlDeviceGetTemperatureV"] == 1
    assert library.calls["nvmlDeviceGetTemperature"] == 3


def test_why_a_clock_is_low_is_asked_once_a_second_and_at_once_when_it_has_fallen():
    card = FakeCard()
    library, source = opened(card)
    asked = []
    for now, mhz in ((0.0, 1755), (0.2, 1755), (0.4, 1200), (0.6, 1300), (1.5, 1300)):
        card.answers["nvmlDeviceGetClockInfo"] = mhz
        source.look(now)
        asked.append(library.calls["nvmlDeviceGetCurrentClocksEventReasons"])
    assert asked == [1, 1, 2, 2, 3]


def test_a_call_that_is_refused_for_good_is_made_once_and_its_reason_kept():
    library, source = opened(FakeCard(nvmlDeviceGetPowerUsage=Code(NO_PERMISSION)))
    for now in range(3):
        found = source.look(float(now))[UUID]
    assert value(found, Signal.POWER) is None
    assert found.missing[Signal.POWER] == "error 4"
    assert library.calls["nvmlDeviceGetPowerUsage"] == 1


def test_a_function_that_the_library_lacks_is_one_that_the_driver_lacks():
    class Older(FakeNvml):
        def __getattr__(self, name):
            if name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetPowerUsage"):
                raise AttributeError(name)
            return super().__getattr__(name)

    source = SignalSource(Nvml(Older(FakeCard(nvmlDeviceGetTemperature=61))))
    found = source.look(0.0)[UUID]
    assert value(found, Signal.TEMPERATURE) == 61.0
    assert value(found, Signal.POWER) is None
    assert found.missing[Signal.POWER] == "error 13"


def test_a_call_that_fails_once_is_made_again():
    card = FakeCard(nvmlDeviceGetPowerUsage=Code(UNKNOWN))
    _, source = opened(card)
    assert value(source.look(0.0)[UUID], Signal.POWER) is None
    card.answers["nvmlDeviceGetPowerUsage"] = 100_000
    assert value(source.look(1.0)[UUID], Signal.POWER) == 100.0


@pytest.mark.parametrize(("code", "words"), [(LOST, "lost"), (RESET, "requires a reset")])
def test_a_card_in_trouble_says_so_and_the_others_go_on(code, words):
    card = FakeCard()
    _, source = opened(card, FakeCard(OTHER))
    source.look(0.0)
    card.answers["nvmlDeviceGetUtilizationRates"] = Code(code)
    found = source.look(1.0)
    assert words in found[UUID].trouble
    assert value(found[UUID], Signal.GPU_UTIL) is None
    assert value(found[OTHER], Signal.GPU_UTIL) == 85.0


def test_a_card_that_is_lost_from_the_start_is_left_out():
    cards = Nvml(FakeNvml(FakeCard(nvmlDeviceGetUUID=Code(LOST)), FakeCard(OTHER))).cards()
    assert [card.uuid for card in cards] == [OTHER]


@pytest.mark.parametrize(
    ("code", "words"),
    [(18, "differ in version"), (9, "not loaded"), (12, "libnvidia-ml.so.1"), (4, "nvidiactl")],
)
def test_a_library_that_will_not_open_says_the_way_out(code, words):
    with pytest.raises(Unavailable, match=words):
        Nvml(FakeNvml(init=code)).cards()


def test_a_library_that_will_not_open_is_tried_again_only_after_a_while():
    clock = SimpleNamespace(now=0.0)
    library = FakeNvml(FakeCard(), init=18)
    nvml = Nvml(library, lambda: clock.now)
    for clock.now in (0.0, 1.0, 4.0):
        with pytest.raises(Unavailable):
            nvml.devices()
    assert library.opened == 1
    library.init, clock.now = None, 6.0
    assert len(nvml.devices()) == 1


def test_a_driver_that_is_exchanged_under_the_agent_is_opened_anew():
    card = FakeCard()
    library, source = opened(card)
    source.look(0.0)
    card.answers["nvmlDeviceGetUtilizationRates"] = Code(1)
    with pytest.raises(Unavailable):
        source.look(1.0)
    card.answers["nvmlDeviceGetUtilizationRates"] = SimpleNamespace(gpu=7)
    assert value(source.look(2.0)[UUID], Signal.GPU_UTIL) == 7.0
    assert library.opened == 2


def test_an_xid_shows_once_and_of_two_the_graver():
    card, other = FakeCard(), FakeCard(OTHER)
    library, source = opened(card, other)
    source.look(0.0)
    library.events = [(card, 79), (card, 31), (other, 43), (other, 5_000)]
    found = source.look(1.0)
    assert value(found[UUID], Signal.XID) == 79.0
    assert value(source.look(2.0)[UUID], Signal.XID) == 0.0


def test_an_xid_of_a_lost_card_is_not_lost_with_it():
    card = FakeCard()
    library, source = opened(card)
    source.look(0.0)
    library.events = [(card, 79)]
    card.answers["nvmlDeviceGetUtilizationRates"] = Code(LOST)
    assert value(source.look(1.0)[UUID], Signal.XID) == 79.0


def test_a_card_that_reports_no_xid_has_none_rather_than_zero():
    _, source = opened(FakeCard(nvmlDeviceRegisterEvents=Code(NOT_SUPPORTED)))
    assert value(source.look(0.0)[UUID], Signal.XID) is None


def test_a_storm_of_events_does_not_hold_up_the_sample():
    card = FakeCard()
    library, source = opened(card)
    source.look(0.0)
    library.events = [(card, 31)] * 1_000
    assert value(source.look(1.0)[UUID], Signal.XID) == 31.0
    assert len(library.events) > 900


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, ()),
        (0x1, ()),
        (0x24, ("power cap", "software thermal slowdown")),
        (None, None),
        ((1 << 64) - 1, None),
    ],
)
def test_the_reasons_of_a_low_clock_are_words(mask, words):
    assert throttled(mask) == words


def test_pcie_is_measured_only_where_gpm_does_not():
    slow = FakeCard(OTHER, nvmlGpmQueryDeviceSupport=Code(13))
    found = PcieSource(Nvml(FakeNvml(FakeCard(), slow))).look(0.0)
    assert set(found) == {OTHER}
    assert value(found[OTHER], Signal.PCIE_RX) == 8_691 * 1024.0


def test_pcie_of_all_bits_set_is_missing():
    slow = FakeCard(nvmlGpmQueryDeviceSupport=Code(13), nvmlDeviceGetPcieThroughput=0xFFFFFFFF)
    found = PcieSource(Nvml(FakeNvml(slow))).look(0.0)
    assert value(found[UUID], Signal.PCIE_RX) is None
