"""What a node recorded while nobody heard it, added to what is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from agents.wire import samples
from agents.wire.limits import MAX_SKEW_S
from agents.wire.messages import PackedTelemetry, Samples
from console.history import outgoing, rows, writing
from console.inventory.models import Gpu
from console.telemetry import plausible
from console.telemetry.plausible import STRANGER, Arrival

# Older than raw history is kept, nothing is wanted.
OLDEST_S: Final = 2 * 3_600 + 600


def backfill(node_id: int, blocks: Sequence[Samples], now: float, behind_s: float = 0.0) -> int:
    """How many seconds of GPUs were written. The same blocks again change nothing. What cannot be
    true is left out, as of live telemetry; so is what is older than agents keep. `behind_s`: so
    far the node's clock is behind ours; beyond what is tolerated its seconds are put right, and
    marked as those of receipt are. Raises ValueError for what is no block."""
    ids = dict(Gpu.objects.filter(node=node_id, retired_at=None).values_list("index", "pk"))
    put_right_s = behind_s if abs(behind_s) > MAX_SKEW_S else 0.0
    arrivals = list(_arrivals(blocks, ids, now, put_right_s))
    if not arrivals:
        return 0
    sampled, _ = plausible.sift(arrivals)
    found = [outgoing.encoded(one.rows.astype(np.uint32), *one[1:]) for one in sampled]
    with writing.turn() as epoch:
        return writing.store(rows.joined(found), epoch, node_id)


def _arrivals(
    blocks: Sequence[Samples], ids: Mapping[int, int], now: float, put_right_s: float
) -> Iterator[Arrival]:
    """Each second as if it came now; the row of a GPU is its id."""
    row_of = np.full(max(ids, default=-1) + 1, STRANGER, np.intp)
    row_of[list(ids)] = list(ids.values())
    for block in blocks:
        for one in samples.seconds(block):
            at = one.at + put_right_s
            if now - OLDEST_S <= at <= now + MAX_SKEW_S:
                rows = np.frombuffer(one.rows, "<f4").astype("<f8").tobytes()
                told = PackedTelemetry(one.number, one.at, one.fields, one.signals, rows)
                yield Arrival(told, row_of, at)
