"""What a console missed, message by message. On a clock of its own."""

from __future__ import annotations

import pytest

from agents.backfill import ACK_TIMEOUT_S, EVERY_S, FIRST_AFTER_S, Backfiller
from agents.wire import packed, samples
from agents.wire.limits import MAX_BACKFILL_SECONDS
from agents.wire.messages import GpuSample, Telemetry


def block(first):
    seconds = (
        Telemetry(number, float(number), (GpuSample(0, 1, (), ()),))
        for number in range(first, first + 10)
    )
    return samples.block([samples.second(packed.pack(one)) for one in seconds])


class Recorded:
    """Ten seconds a block, up to `last`."""

    def __init__(self, last):
        self.last = last

    def after(self, at):
        blocks = (block(first) for first in range(0, self.last, 10))
        return (one for one in blocks if one.times[-1] > at)


def begun(after, until, last=200):
    filler = Backfiller(Recorded(last))
    filler.begin(after, until, now=0.0)
    return filler


def told(message):
    return [number for one in message.blocks for number in one.numbers]


def test_a_gap_is_told_to_the_second_and_in_order():
    filler, now, numbers = begun(after=23.0, until=172.0), FIRST_AFTER_S[1], []
    while (message := filler.take(now)) is not None:
        assert len(told(message)) <= MAX_BACKFILL_SECONDS
        numbers += told(message)
        filler.acknowledge(message.blocks[-1].times[-1], now)
        now += EVERY_S
    assert numbers == list(range(24, 173))


def test_the_live_samples_of_a_new_connection_go_first():
    assert begun(0.0, 100.0).take(FIRST_AFTER_S[0] - 0.1) is None


def test_the_next_waits_for_the_acknowledgement_and_for_a_second():
    filler, now = begun(0.0, 200.0), FIRST_AFTER_S[1]
    first = filler.take(now)
    assert filler.take(now + 5.0) is None
    filler.acknowledge(first.blocks[-1].times[-1], now + 0.1)
    assert filler.take(now + 0.2) is None
    assert told(filler.take(now + EVERY_S))[0] == told(first)[-1] + 1


def test_a_message_that_gets_no_answer_comes_again():
    filler, now = begun(0.0, 200.0), FIRST_AFTER_S[1]
    first = filler.take(now)
    filler.acknowledge(3.0, now + 1.0)  # of something else
    assert filler.take(now + ACK_TIMEOUT_S) is first


def test_a_new_connection_asks_anew():
    filler = begun(0.0, 200.0)
    filler.take(FIRST_AFTER_S[1])
    filler.begin(150.0, 200.0, now=10.0)
    assert told(filler.take(10.0 + FIRST_AFTER_S[1]))[0] == 151


@pytest.mark.parametrize("after", [None, 300.0])
def test_a_console_that_takes_none_or_misses_none_gets_none(after):
    assert begun(after, 400.0).take(100.0) is None


def test_a_node_that_records_nothing_tells_nothing():
    filler = Backfiller(None)
    filler.begin(0.0, 100.0, now=0.0)
    assert filler.take(100.0) is None
