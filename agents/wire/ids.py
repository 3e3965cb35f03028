"""UUIDv7 (RFC 9562): ids made by whoever originates the thing, ordered by time."""

from __future__ import annotations

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """A new id: 48 bits of Unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
