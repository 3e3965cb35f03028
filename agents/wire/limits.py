"""Bounds on everything that crosses the wire; a message beyond one is refused whole."""

from __future__ import annotations

from typing import Final

PROTOCOL_MIN: Final = 1
# 2: telemetry is packed.
PROTOCOL_MAX: Final = 2

MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_GPUS_PER_NODE: Final = 64
MAX_PLACEMENTS_PER_NODE: Final = 256
MAX_EVENTS_PER_BATCH: Final = 256
# Of an event; far beyond any real count.
MAX_SEQ: Final = 1 << 60
MAX_NAME_CHARS: Final = 128
MAX_TEXT_CHARS: Final = 4_096
MAX_DATA_BYTES: Final = 64 << 10

# Of seconds in one block of back-fill, in one message of it, and in the window of an emergency.
MAX_BLOCK_SECONDS: Final = 10
MAX_BACKFILL_SECONDS: Final = 60
MAX_WINDOW_SECONDS: Final = 120

TELEMETRY_PERIOD_S: Final = 1.0
STATUS_PERIOD_S: Final = 5.0
LEASE_RENEWAL_S: Final = 10.0
MAX_SKEW_S: Final = 2.0

# How long each step after the checkpoint window may take before the next, harder one is due.
GATE_S: Final = 1.0
QUIESCE_S: Final = 2.0
RELEASE_S: Final = 2.0
EXIT_S: Final = 3.0
TERMINATE_S: Final = 3.0
KILL_S: Final = 5.0
MEMORY_RETURN_S: Final = 10.0
