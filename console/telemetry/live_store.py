"""The live grid in Redis: each web process puts down what its agents sent, everybody reads all.

One packed blob a process and second, gone ten seconds after its process. Nothing durable is here:
when Redis is away, each web process goes on with what its own agents send.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, cast

import msgspec
import numpy as np
import redis
import redis.asyncio
from django.conf import settings

from console import live_state
from console.errors import Unavailable
from console.telemetry import latest
from console.telemetry.latest import (
    COLUMNS,
    UNREACHABLE_S,
    Bytes,
    Floats,
    Grid,
    Ids,
    LiveGpu,
    Rows,
    Times,
)

BLOB_TTL_S: Final = 10


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Samples of one process: packed little-endian arrays, one entry a GPU."""

    process: str
    columns: int
    ids: bytes
    at: bytes
    state: bytes
    card_bytes: bytes
    values: bytes


class Shared(msgspec.Struct, frozen=True):
    """A blob unpacked."""

    process: str
    ids: Ids
    at: Times
    state: Bytes
    card_bytes: Floats
    values: Floats


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Blob)


def fresh(grid: Grid, now: float) -> Rows:
    """What this process alone knows: rows it received itself and not too long ago."""
    return np.flatnonzero(grid.local & (now - grid.at <= UNREACHABLE_S))


def pack(process: str, grid: Grid, rows: Rows) -> bytes:
    return _encoder.encode(
        Blob(
            process,
            len(COLUMNS),
            grid.facts.ids[rows].astype("<u4").tobytes(),
            grid.at[rows].astype("<f8").tobytes(),
            grid.state[rows].tobytes(),
            grid.facts.memory_bytes[rows].astype("<f4").tobytes(),
            grid.values[rows].astype("<f4").tobytes(),
        )
    )


def unpack(data: bytes) -> Shared | None:
    """None when a process of another version wrote it, or it is broken."""
    try:
        blob = _decoder.decode(data)
        shared = Shared(
            blob.process,
            np.frombuffer(blob.ids, "<u4"),
            np.frombuffer(blob.at, "<f8"),
            np.frombuffer(blob.state, np.uint8),
            np.frombuffer(blob.card_bytes, "<f4"),
            np.frombuffer(blob.values, "<f4").reshape(-1, len(COLUMNS)),
        )
    except (msgspec.DecodeError, ValueError):
        return None
    columns = (shared.ids, shared.at, shared.state, shared.card_bytes, shared.values)
    is_whole = len({len(column) for column in columns}) == 1 and blob.columns == len(COLUMNS)
    return shared if is_whole else None


async def put_down(client: redis.asyncio.Redis, process: str, blob: bytes, now: float) -> list[str]:
    """Put down our blob; the names of the other processes. Raises redis.RedisError."""
    async with client.pipeline(transaction=False) as pipe:
        pipe.set(_key(process), blob, ex=BLOB_TTL_S)
        pipe.zadd(_index(), {process: now})
        pipe.zremrangebyscore(_index(), 0, now - BLOB_TTL_S)
        pipe.zrange(_index(), 0, -1)
        *_, names = await pipe.execute()
    return [name.decode() for name in names if name.decode() != process]


async def take_up(client: redis.asyncio.Redis, names: Sequence[str]) -> list[Shared]:
    """What these processes put down. Raises redis.RedisError."""
    return _unpacked(await client.mget([_key(name) for name in names])) if names else []


async def withdraw(client: redis.asyncio.Redis, process: str) -> None:
    """Take our blob away, when the process ends in order. Raises redis.RedisError."""
    await client.delete(_key(process))
    await client.zrem(_index(), process)


def publish(process: str, grid: Grid) -> None:
    """Put down a grid from outside a web process. Raises Unavailable."""
    now = time.time()
    try:
        live_state.client().set(_key(process), pack(process, grid, fresh(grid, now)), ex=BLOB_TTL_S)
        live_state.client().zadd(_index(), {process: now})
    except redis.RedisError as error:
        raise _unavailable(error) from error


def read() -> dict[int, LiveGpu]:
    """The last sample of every GPU that any web process knows. Raises Unavailable.

    A GPU that is not in the answer, or whose `age_s` is high, has no live data: that is a value of
    its own, never zero.
    """
    now = time.time()
    try:
        blobs = _blobs(now)
    except redis.RedisError as error:
        raise _unavailable(error) from error
    return newest(_unpacked(blobs), now)


def _blobs(now: float) -> list[bytes | None]:
    names = cast(
        "list[bytes]", live_state.client().zrangebyscore(_index(), now - BLOB_TTL_S, "+inf")
    )
    if not names:
        return []
    return cast(
        "list[bytes | None]", live_state.client().mget([_key(name.decode()) for name in names])
    )


def fill(grid: Grid) -> None:
    """Put into `grid` what any web process knows of its GPUs. Raises Unavailable."""
    try:
        blobs = _blobs(time.time())
    except redis.RedisError as error:
        raise _unavailable(error) from error
    for shared in _unpacked(blobs):
        grid.merge(shared.ids, shared.at, shared.state, shared.values)


def newest(shared: Iterable[Shared], now: float) -> dict[int, LiveGpu]:
    """One entry a GPU, from whichever process heard of it last."""
    found: dict[int, LiveGpu] = {}
    for blob in shared:
        for row, gpu_id in enumerate(blob.ids.tolist()):
            at = float(blob.at[row])
            if gpu_id not in found or found[gpu_id].at < at:
                found[gpu_id] = latest.live(
                    gpu_id, at, int(blob.state[row]), blob.values[row], _size(blob, row), now
                )
    return found


def _size(blob: Shared, row: int) -> float | None:
    size = float(blob.card_bytes[row])
    return size if size == size else None


def _unpacked(blobs: Sequence[bytes | None]) -> list[Shared]:
    shared = (unpack(blob) for blob in blobs if blob is not None)
    return [blob for blob in shared if blob is not None]


def _key(process: str) -> str:
    return f"{settings.REDIS_PREFIX}:grid:{process}"


def _index() -> str:
    return f"{settings.REDIS_PREFIX}:grids"


def _unavailable(error: redis.RedisError) -> Unavailable:
    return Unavailable(f"Redis does not answer, so there is no live data: {error}")
