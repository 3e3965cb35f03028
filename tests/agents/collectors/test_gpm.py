from __future__ import annotations

import math
from itertools import pairwise

import pytest

from agents.collectors.base import Origin
from agents.collectors.card import Card
from agents.collectors.gpm import GpmSource
from agents.collectors.merge import Merger
from agents.collectors.nvml import Nvml
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal
from tests.agents.collectors.fake_nvml import OTHER, UUID, Code, FakeCard, FakeNvml

SIGNALS = (Signal.SM_ACTIVITY, Signal.SM_OCCUPANCY, Signal.MEMORY_BANDWIDTH, Signal.PCIE_RX)


def opened(*cards):
    library = FakeNvml(*cards)
    return library, GpmSource(Nvml(library))


def values(source, now, uuid=UUID):
    finding = source.look(now)[uuid]
    return [finding.values[POSITIONS[signal]] for signal in SIGNALS]


def test_two_samples_make_one_average():
    _, source = opened(FakeCard())
    assert values(source, 0.0) == [None] * 4
    assert values(source, 0.2) == [40.0, 25.0, 33.0, 100.0 * (1 << 20)]


def test_each_sample_is_compared_with_the_one_before_it():
    taken: list[object] = []

    def get(sample):
        taken.append(sample)
        return 0

    library, source = opened(FakeCard(nvmlGpmSampleGet=get))
    for turn in range(4):
        source.look(turn * 0.2)
    assert library.compared == list(pairwise(taken))


def test_samples_too_close_show_the_last_average_again():
    library, source = opened(FakeCard())
    values(source, 0.0)
    values(source, 0.2)
    library.metrics[2] = 90.0
    assert values(source, 0.25)[0] == 40.0
    assert values(source, 0.4)[0] == 90.0


@pytest.mark.parametrize("passed_s", [5.0, -1.0], ids=["too long ago", "back in time"])
def test_samples_that_cannot_be_compared_give_nothing(passed_s):
    _, source = opened(FakeCard())
    values(source, 10.0)
    assert values(source, 10.0 + passed_s) == [None] * 4
    assert values(source, 10.2 + passed_s)[0] == 40.0


@pytest.mark.parametrize("raw", [math.nan, 101.0, -1.0, float((1 << 64) - 1)])
def test_a_metric_that_cannot_be_is_missing(raw):
    library, source = opened(FakeCard())
    library.metrics[2] = raw
    values(source, 0.0)
    found = Origin("gpm", 0.2), source.look(0.2)[UUID]
    shown = Merger(Card(0, UUID, "H100", 80 << 30)).reading([found], {})
    assert [shown.values[POSITIONS[signal]] for signal in SIGNALS[:2]] == [None, 25.0]


def test_a_metric_that_the_card_refuses_is_missing():
    library, source = opened(FakeCard())
    library.metric_return = 3
    values(source, 0.0)
    assert values(source, 0.2) == [None] * 4


def test_a_card_before_hopper_has_no_part_in_it():
    _, source = opened(FakeCard(nvmlGpmQueryDeviceSupport=Code(13)), FakeCard(OTHER))
    assert set(source.look(0.0)) == {OTHER}


def test_without_permission_it_says_so():
    _, source = opened(FakeCard(nvmlGpmSampleGet=Code(4)))
    assert source.look(0.0)[UUID].missing[Signal.SM_ACTIVITY] == "error 4"


def test_a_lost_card_does_not_stop_the_others():
    card = FakeCard()
    _, source = opened(card, FakeCard(OTHER))
    source.look(0.0)
    card.answers["nvmlGpmSampleGet"] = Code(15)
    found = source.look(0.2)
    assert "lost" in found[UUID].trouble
    assert found[OTHER].values[POSITIONS[Signal.SM_ACTIVITY]] == 40.0
