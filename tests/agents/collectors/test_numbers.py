"""One line of our own for each kind of raw value."""

from __future__ import annotations

import math

import pytest

from agents.collectors import numbers
from agents.sysmonitor.signals import BOUNDS
from agents.wire.names import Signal

NO_NUMBER = {
    "missing": None,
    "empty": "",
    "not applicable": "[N/A]",
    "not applicable, bare": "N/A",
    "not supported": "[Not Supported]",
    "no permission": "[Insufficient Permissions]",
    "a reset is due": "[GPU requires reset]",
    "an unknown error": "[Unknown Error]",
    "lost": "GPU is lost",
    "deprecated": "[Requested functionality has been deprecated]",
    "an exporter's complaint": 'expected float as value, got "N/A"',
    "several numbers": "12 34",
    "DCGM's text blank": "<<<NULL>>>",
    "a switch": True,
    "NaN": math.nan,
    "NaN as text": "nan",
    "infinite": math.inf,
    "infinite as text": "-Infinity",
    "32 bits set": 0xFFFFFFFF,
    "64 bits set": 0xFFFFFFFFFFFFFFFF,
    "64 bits set, as a float": float(0xFFFFFFFFFFFFFFFF),
    "INT64 maximum": (1 << 63) - 1,
    "DCGM, 64 bits: blank": 0x7FFFFFFFFFFFFFF0,
    "DCGM, 64 bits: not found": 0x7FFFFFFFFFFFFFF1,
    "DCGM, 64 bits: not supported": "9223372036854775794",
    "DCGM, 64 bits: no permission": 0x7FFFFFFFFFFFFFF3,
    "DCGM, 64 bits, through a float": float(0x7FFFFFFFFFFFFFF2),
    "DCGM, 32 bits: not supported": 0x7FFFFFF2,
    "DCGM, double: blank": 140737488355328.0,
    "DCGM, double: not permissioned": 140737488355331.0,
    "a list": [5],
}


@pytest.mark.parametrize("kind", NO_NUMBER)
def test_what_is_no_number_is_missing(kind):
    assert numbers.number(NO_NUMBER[kind]) is None


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (0, 0.0),
        ("0", 0.0),
        ("85 %", 85.0),
        ("627.32 W", 627.32),
        ("1980 MHz", 1980.0),
        ("-3", -3.0),
        (b"52", 52.0),
        ("5.0e-1", 0.5),
        ("0x0000000000000004", 4.0),
        ("16x", 16.0),
        ((1 << 31) - 1 - 16, 2147483631.0),
    ],
)
def test_a_number_is_read_with_its_unit(raw, value):
    assert numbers.number(raw) == value


@pytest.mark.parametrize("signal", Signal)
def test_every_signal_refuses_what_is_out_of_its_bounds(signal):
    low, high = BOUNDS[signal]
    beyond = (low - 1.0, high * 1.01, -1.0, 1e30, float(0xFFFFFFFF) * 1e6)
    assert [numbers.within(signal, value) for value in beyond] == [None] * len(beyond)
    assert numbers.within(signal, high) == high
    assert numbers.within(signal, low) == low


@pytest.mark.parametrize("raw", [808334905, 686103, 127622, 2619, 1980, 200_000, 101, -1])
def test_a_utilisation_that_no_card_has_is_missing(raw):
    assert numbers.read(Signal.GPU_UTIL, raw) is None


@pytest.mark.parametrize(
    ("raw", "most", "size"),
    [
        (5, 10, 5),
        (0, 10, 0),
        (11, 10, None),
        (-1, 10, None),
        (None, 10, None),
        (True, 10, None),
        (5.0, 10, None),
        (0xFFFFFFFFFFFFFFFF, 1 << 64, None),
        (17 << 40, 80 << 30, None),  # a counter that wrapped around
    ],
)
def test_a_size_is_whole_and_within_the_card(raw, most, size):
    assert numbers.size(raw, most) == size
