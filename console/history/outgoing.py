"""Samples on their way from a web process to the history: kept for ten seconds, then put to Redis
as one batch, from where a worker takes it.

Redis holds each batch for `KEPT_S`: so long may the database be away, or no worker be there.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import redis.asyncio
from django.conf import settings

from console.history import kept, rows
from console.history.rows import Rows
from console.telemetry.latest import Bytes, Flags, Floats, Ids, Times

BATCH_S: Final = 10
# A second is complete once this has passed after it: agents and their way here differ.
SETTLED_S: Final = 2.5
KEPT_S: Final = 20 * 60
# Beyond this nothing more is kept here: Redis has been away too long.
MOST_WAITING: Final = 1_500_000


class _Taken(NamedTuple):
    gpu: Ids
    at: Times
    state: Bytes
    values: Floats
    worst: Floats
    by_receipt: Flags


class Outgoing:
    """Of one web process."""

    def __init__(self) -> None:
        self.dropped_total = 0
        self._taken: list[_Taken] = []
        self._waiting = rows.none()
        self._until = 0

    def take(
        self,
        gpu: Ids,
        at: Times,
        state: Bytes,
        values: Floats,
        worst: Floats,
        by_receipt: Flags,
    ) -> None:
        """Samples that came to this process. The arrays must not change any more."""
        self._taken.append(_Taken(gpu, at, state, values, worst, by_receipt))

    async def flush(self, client: redis.asyncio.Redis, process: str, now: float) -> None:
        """Put down what is complete, if anything newly is. Raises redis.RedisError; then all of it
        waits for the next time."""
        until = int((now - SETTLED_S) // BATCH_S) * BATCH_S
        if until <= self._until:
            return
        taken, self._taken = self._taken, []
        self._waiting = await asyncio.to_thread(_with, self._waiting, taken)
        self._bound()
        complete = self._waiting.second < until
        if complete.any():
            batch = self._waiting.take(complete)
            await _put(
                client, f"{process}:{until}", until, await asyncio.to_thread(rows.pack, batch)
            )
        self._waiting, self._until = self._waiting.take(~complete), until

    def _bound(self) -> None:
        if (excess := len(self._waiting.gpu) - MOST_WAITING) > 0:
            self.dropped_total += excess
            self._waiting = self._waiting.take(np.arange(excess, len(self._waiting.gpu)))


def _with(waiting: Rows, taken: list[_Taken]) -> Rows:
    if not taken:
        return waiting
    columns = [np.concatenate(column) for column in zip(*taken, strict=True)]
    return rows.joined([waiting, encoded(*columns)])


def encoded(
    gpu: Ids, at: Times, state: Bytes, values: Floats, worst: Floats, by_receipt: Flags
) -> Rows:
    """Samples as they are kept, by GPU and second."""
    order = np.lexsort((at, gpu))
    ids, moments = gpu[order].astype(np.int64), at[order]
    last = kept.encode(kept.taken(values[order], state[order], by_receipt[order]))
    codes = kept.encode(worst[order], kept.NAMES[: kept.WORST])
    codes = np.where(codes == kept.MISSING, last[:, : kept.WORST], codes)
    return Rows(ids, seconds(ids, moments), last, codes)


def seconds(gpu: npt.NDArray[np.int64], at: Times) -> npt.NDArray[np.int64]:
    """The second of each sample, of GPUs side by side. Those of an agent are a second apart but for
    some milliseconds: they are counted from the moment of the second at which it sends, so that no
    second gets two of them and the next none."""
    if not len(at):
        return at.astype(np.int64)
    first = np.flatnonzero(np.diff(gpu, prepend=gpu[0] - 1))
    turn = np.exp(2j * np.pi * (at % 1.0))
    phase = np.angle(np.add.reduceat(turn, first)) / (2 * np.pi)  # the mean on a circle
    return np.rint(at - np.repeat(phase, np.diff(np.append(first, len(at))))).astype(np.int64)


async def _put(client: redis.asyncio.Redis, name: str, until: int, data: bytes) -> None:
    async with client.pipeline(transaction=True) as pipe:
        pipe.set(key(name), data, ex=KEPT_S)
        pipe.zadd(index(), {name: until})
        await pipe.execute()


def key(name: str) -> str:
    return f"{settings.REDIS_PREFIX}:history:{name}"


def index() -> str:
    return f"{settings.REDIS_PREFIX}:history"
