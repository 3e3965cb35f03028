"""What a raw value is worth. Pure.

Drivers and exporters print text where a number belongs, numbers that stand for "no number", and
numbers that no card can reach. Each such kind is a missing value here, never 0.
"""

from __future__ import annotations

import math
import re
from typing import Final

from agents.sysmonitor.signals import BOUNDS
from agents.wire.names import Signal

# NVML's "not available" is all bits set, in 32 or 64 bits. DCGM's blanks are 16 values from the
# base on (blank, not found, not supported, no permission, ...), for each type it knows.
_NVML_BLANKS: Final = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_DCGM_BASES: Final = (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 1 << 47)
_DCGM_WIDTH: Final = 16
# Between the blanks of 32 bits and the others: any bytes of memory are here.
_FREE: Final = 1 << 32

# A number and at most a unit: "85", "85 %", "627.32 W", "31 C", "0x0000000000000004".
_NUMBER: Final = re.compile(
    r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))\s*[%°/A-Za-z]{0,10}\s*"
)


def number(raw: object) -> float | None:
    """The number that was meant; None for text that is none, NaN, infinities and blanks."""
    if isinstance(raw, bool) or raw is None:
        return None
    if isinstance(raw, bytes):
        raw = raw.decode(errors="replace")
    value = _parsed(raw) if isinstance(raw, str) else raw
    if not isinstance(value, int | float) or is_blank(value):
        return None
    return float(value) if math.isfinite(value) else None


def is_blank(value: float) -> bool:
    """True for a number that stands for "no number"."""
    if value < _DCGM_BASES[0] or _FREE <= value < _DCGM_BASES[2]:
        return False
    if value in _NVML_BLANKS:
        return True
    # As a float the 64-bit blanks round up to 2^63 and 2^64.
    if isinstance(value, float) and value in (2.0**63, 2.0**64):
        return True
    return any(base <= value < base + _DCGM_WIDTH for base in _DCGM_BASES)


def within(signal: Signal, value: float | None) -> float | None:
    """The value when the signal can have it (wire units), else None."""
    low, high = BOUNDS[signal]
    return value if value is not None and low <= value <= high else None


def read(signal: Signal, raw: object, scale: float = 1.0) -> float | None:
    """The raw value times `scale`, in wire units and within the signal's bounds, else None."""
    value: float | None
    # Almost every value is a small number, and this runs many times a second.
    if (type(raw) is int or type(raw) is float) and -1 < raw < _DCGM_BASES[0]:
        value = raw
    else:
        value = number(raw)
    return None if value is None else within(signal, value * scale)


def size(raw: object, most: int) -> int | None:
    """Bytes from 0 to `most`, else None."""
    if isinstance(raw, bool) or not isinstance(raw, int) or is_blank(raw):
        return None
    return raw if 0 <= raw <= most else None


def _parsed(text: str) -> float | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits = match[1]
    # Whole numbers stay exact, so that a blank is told from its neighbours.
    if re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]+", digits):
        return int(digits, 16)
    return int(digits) if re.fullmatch(r"[+-]?\d+", digits) else float(digits)
