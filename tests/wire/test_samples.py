"""Recorded seconds as a block, on the disk, on the wire and in an event."""

from __future__ import annotations

import json
import math
import struct
import zlib

import msgspec
import pytest

from agents.wire import codec, packed, samples
from agents.wire.messages import Backfill, GpuSample, Telemetry
from agents.wire.names import SIGNALS


def telemetry(number, gpus=2):
    values = (float(number), None, *[0.1 * number] * (len(SIGNALS) - 2))
    rows = tuple(GpuSample(gpu, 1, values, values, duty_percent=gpu + 0.5) for gpu in range(gpus))
    return Telemetry(number, 1_700_000_000.25 + number, rows)


def second(number, gpus=2):
    return samples.second(packed.pack(telemetry(number, gpus)))


def block(*numbers, gpus=2):
    return samples.block([second(number, gpus) for number in numbers])


def test_a_block_is_given_back_as_it_was_to_the_precision_of_a_drawing():
    (sent,) = codec.decode_from_agent(codec.encode(Backfill((block(7, 8, 10),)))).blocks
    assert sent.numbers == (7, 8, 10)
    assert sent.times[2] == 1_700_000_010.25
    rows = samples.inflate(sent)
    assert len(rows) == 3 * 2 * packed.WIDTH * 4
    row = struct.unpack_from(f"<{packed.WIDTH}f", rows, 5 * packed.WIDTH * 4)
    at = dict(zip((*packed.FIELDS, *SIGNALS), row, strict=False))
    assert (at["index"], at["duty_percent"], at["gpu_util"]) == (1.0, 1.5, 10.0)
    assert math.isnan(at["headroom_percent"])
    assert row[len(packed.FIELDS) + 2] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"deflated": b"no zlib"},
        {"gpus": 3},
        {"gpus": 1},
        {"gpus": 0},
        {"fields": -30},
        {"fields": 1 << 40},
        {"times": ()},
        {"numbers": (1,)},
        {"times": (1.0,) * 500, "numbers": (1,) * 500},
    ],
    ids=str,
)
def test_a_block_that_is_not_what_it_says_is_refused(changed):
    with pytest.raises(ValueError, match="block"):
        samples.inflate(msgspec.structs.replace(block(1, 2), **changed))


def test_a_block_that_would_fill_the_memory_is_never_unpacked_whole():
    bomb = msgspec.structs.replace(block(1), deflated=zlib.compress(bytes(1 << 26)))
    with pytest.raises(ValueError, match="take 296 bytes"):
        samples.inflate(bomb)


def test_only_the_seconds_that_are_asked_for_are_sent():
    whole = block(1, 2, 3)
    start = 1_700_000_000.25
    assert samples.between(whole, start, start + 3) is whole
    assert samples.between(whole, start + 3, start + 9) is None
    assert samples.between(whole, start + 1, start + 2) == block(2)


def test_the_window_of_one_gpu_survives_the_event_that_carries_it():
    of_one = samples.block([samples.of_gpu(second(number), 1) for number in (4, 5)])
    told = json.loads(json.dumps(samples.event_data(of_one)))
    assert samples.of_event(told) == of_one
    assert struct.unpack_from("<f", samples.inflate(of_one)) == (1.0,)


@pytest.mark.parametrize("window", [None, {}, [], {"deflated": "?"}, {"deflated": 3}], ids=str)
def test_what_is_no_window_is_none(window):
    assert samples.of_event(window) is None
