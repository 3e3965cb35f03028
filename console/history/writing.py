"""Batches in Redis become blocks in the database.

A minute is written once all its batches are there. What was written is noted in the same
transaction, and only then taken from Redis: whoever dies in between writes nothing twice. There is
one writer at a time, and it leaves out what is known already: so no second is ever in two blocks,
and what pools and services are told of it they are told once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from django.db import transaction
from django.db.models import F, Q

from console import live_state
from console.history import blocks, outgoing, rolling, rows
from console.history.blocks import Raw, Rolled
from console.history.kept import MISSING
from console.history.models import Block, Kind, TakenBatch, Writer
from console.history.rows import Rows
from console.history.tiers import FRESH_S, MINUTE_S, RAW, TEN
from console.inventory.models import Gpu
from console.workloads.models import OnlineInstance

log = logging.getLogger(__name__)

# Batches of a minute may come this much after its end.
LATE_S: Final = 10
# Minutes a call: behind after an outage, it goes on at the next.
MOST_MINUTES: Final = 3
# Nodes whose blocks are made at the same time, to bound the memory.
TOGETHER: Final = 100
_INSERT: Final = 500
_REMEMBERED: Final = timedelta(hours=1)
_ONLY: Final = 1


def write(now: datetime) -> int:
    """How many batches were written. Raises redis.RedisError."""
    written = 0
    for _ in range(MOST_MINUTES):
        names = _complete(now.timestamp())
        if not names:
            break
        written += _write(names, now)
    TakenBatch.objects.filter(taken_at__lt=now - _REMEMBERED).delete()
    return written


def _complete(now: float) -> list[str]:
    """The batches of the oldest minute that has all of them."""
    until = int((now - LATE_S) // MINUTE_S) * MINUTE_S
    waiting = cast(
        "list[tuple[bytes, float]]",
        live_state.client().zrangebyscore(outgoing.index(), 0, until, withscores=True),
    )
    if not waiting:
        return []
    end = -(-int(waiting[0][1]) // MINUTE_S) * MINUTE_S
    return [name.decode() for name, score in waiting if score <= end]


def is_behind(until: float) -> bool:
    """Whether samples of a time before this wait to be written. Raises redis.RedisError."""
    return bool(live_state.client().zcount(outgoing.index(), 0, until + outgoing.BATCH_S))


def _write(names: Sequence[str], now: datetime) -> int:
    client = live_state.client()
    batches = cast("list[bytes | None]", client.mget(map(outgoing.key, names)))
    with turn() as epoch:
        known = set(TakenBatch.objects.filter(name__in=names).values_list("name", flat=True))
        fresh = {name: data for name, data in zip(names, batches, strict=True) if name not in known}
        TakenBatch.objects.bulk_create([TakenBatch(name=name, taken_at=now) for name in fresh])
        if found := _unpacked(fresh):
            store(rows.joined(found), epoch)
    client.delete(*map(outgoing.key, names))
    client.zrem(outgoing.index(), *names)
    return len(fresh)


def _unpacked(batches: Mapping[str, bytes | None]) -> list[Rows]:
    found = []
    for name, data in batches.items():
        if data is None:
            log.warning("history: batch %s was in Redis for too long and is lost", name)
            continue
        try:
            found.append(rows.unpack(data))
        except ValueError as error:
            log.warning("history: batch %s is left out: %s", name, error)
    return found


@contextmanager
def turn() -> Iterator[int]:
    """A transaction in which nobody else writes blocks, and the epoch of what is written in it."""
    with transaction.atomic():
        while not Writer.objects.filter(pk=_ONLY).update(epoch=F("epoch") + 1):
            Writer.objects.bulk_create([Writer(pk=_ONLY)], ignore_conflicts=True)
        yield Writer.objects.values_list("epoch", flat=True).get(pk=_ONLY)


def store(found: Rows, epoch: int, node: int | None = None) -> int:
    """Write blocks of these samples, in a `turn`; of GPUs that are not known none, and of seconds
    that are known already nothing. How many were written. `node`: all are of this one."""
    places, written = Places.load(node), 0
    found = places.known(found)
    minutes = found.second // MINUTE_S * MINUTE_S
    for minute in np.unique(minutes).tolist():
        new = _unknown(found.take(minutes == minute), minute, places)
        _store_minute(new, minute, epoch, places)
        written += len(new.gpu)
    return written


def _unknown(found: Rows, minute: int, places: Places) -> Rows:
    """Without the seconds that some block has. One query."""
    there = Block.objects.filter(
        Q(start=minute, epoch__gt=0) | Q(start=RAW.start(minute), epoch=0),
        kind=Kind.NODE, tier_s=RAW.period_s, owner__in=np.unique(places.node(found.gpu)).tolist(),
    )  # fmt: skip
    known = [
        _seconds(blocks.unpack(bytes(data)), begins - minute)
        for begins, data in there.values_list("start", "data").iterator()
    ]
    if not known:
        return found
    place = found.gpu * FRESH_S + found.second - minute
    return found.take(~np.isin(place, np.concatenate(known)))


def _seconds(block: Raw | Rolled, offset_s: int) -> npt.NDArray[np.int64]:
    """Which of a minute a block has that begins `offset_s` after it, as one number of GPU and
    second."""
    if isinstance(block, Rolled):
        return np.empty(0, np.int64)
    at, second = np.nonzero((block.last != MISSING).any(axis=0))
    second += offset_s
    here = (second >= 0) & (second < FRESH_S)
    return np.array(block.gpus, np.int64)[at[here]] * FRESH_S + second[here]


def _store_minute(found: Rows, minute: int, epoch: int, places: Places) -> None:
    rolled = []
    for part in _parts(found, places.node(found.gpu)):
        raw = rolling.raw_block(part, minute, FRESH_S)
        _insert(_nodes(raw, places, minute, epoch))
        rolled.append(rolling.together(rolling.as_rolled(raw), TEN.period_s))
    if rolled:
        _insert(_groups(rolled, places, minute, epoch))


def _parts(found: Rows, node: npt.NDArray[np.int64]) -> Iterator[Rows]:
    nodes = np.unique(node)
    for at in range(0, len(nodes), TOGETHER):
        some = nodes[at : at + TOGETHER]
        yield found.take(np.isin(node, some))


def _nodes(raw: Raw, places: Places, minute: int, epoch: int) -> Iterator[Block]:
    gpus = np.array(raw.gpus)
    node = places.node(gpus)
    for owner in np.unique(node).tolist():
        here = np.flatnonzero(node == owner)
        block = Raw(tuple(gpus[here].tolist()), raw.last[:, here], raw.worst[:, here])
        yield _block(Kind.NODE, owner, RAW.period_s, minute, epoch, blocks.pack_raw(block))


def _groups(rolled: Sequence[Rolled], places: Places, minute: int, epoch: int) -> Iterator[Block]:
    """What these samples add to pools and services."""
    whole = rolling.beside(rolled)
    members = {gpu: at for at, gpu in enumerate(whole.members)}
    for (kind, owner), gpus in places.groups.items():
        which = np.array([members[gpu] for gpu in gpus if gpu in members], np.intp)
        if len(which):
            data = blocks.pack_rolled(rolling.group(whole, owner, which))
            yield _block(kind, owner, TEN.period_s, minute, epoch, data)


def _block(kind: Kind, owner: int, tier_s: int, start: int, epoch: int, data: bytes) -> Block:
    return Block(kind=kind, owner=owner, tier_s=tier_s, start=start, epoch=epoch, data=data)


def _insert(made: Iterator[Block]) -> None:
    Block.objects.bulk_create(made, batch_size=_INSERT)


@dataclass(frozen=True)
class Places:
    """Where each GPU is now, and which of them are one pool or serve one service."""

    gpus: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]
    groups: Mapping[tuple[Kind, int], Sequence[int]]

    @classmethod
    def load(cls, node: int | None = None) -> Places:
        """Those of this node, or all. Two queries."""
        here, serving = Gpu.objects.all(), OnlineInstance.objects.all()
        if node is not None:
            here, serving = here.filter(node=node), serving.filter(gpu__node=node)
        gpus = list(here.order_by("pk").values_list("pk", "node_id", "node__pool_id"))
        groups: dict[tuple[Kind, int], list[int]] = {}
        for gpu, _, pool in gpus:
            groups.setdefault((Kind.POOL, pool), []).append(gpu)
        for gpu, service in serving.values_list("gpu_id", "service_id"):
            groups.setdefault((Kind.SERVICE, service), []).append(gpu)
        columns = np.array([row[:2] for row in gpus], np.int64).reshape(-1, 2)
        return cls(columns[:, 0], columns[:, 1], groups)

    def known(self, found: Rows) -> Rows:
        return found.take(np.isin(found.gpu, self.gpus))

    def node(self, gpu: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return self.nodes[np.searchsorted(self.gpus, gpu)]
