"""The door for faults that the demo's panel and the tests ask of a simulated fleet."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from agents.wire import faults
from agents.wire.faults import (
    Answer,
    CutConsole,
    DuplicateUuid,
    Fault,
    Flapping,
    GpuError,
    KillNode,
    Lies,
    Silence,
    Skew,
    Storm,
    TrafficSpike,
)

if TYPE_CHECKING:
    from agents.berth import Berth
    from agents.fleet import Fleet

log = logging.getLogger(__name__)

MAX_LINE_BYTES: Final = 4_096

Mischievous: TypeAlias = Silence | Lies | Flapping | Skew | DuplicateUuid | Storm


class NoSuchThing(ValueError):
    """The fault names what this fleet does not have."""


async def serve_faults(path: Path, fleet: Fleet) -> asyncio.Server:
    """Listens until closed; only the user of this process may connect. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(faults.encode(_answer(fleet, line)))
                await writer.drain()
        except (ValueError, ConnectionError) as error:
            log.info("faults: dropped a connection: %s", error)
        except asyncio.CancelledError:
            # The process ends; asyncio would report a connection cancelled so as a defect.
            return
        finally:
            writer.close()

    # The mask is the whole process's, but nothing else runs between these lines.
    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(answer, path, limit=MAX_LINE_BYTES)
    finally:
        os.umask(mask)


def _answer(fleet: Fleet, line: bytes) -> Answer:
    try:
        fault = faults.decode_fault(line)
        detail = inject(fleet, fault)
    except (msgspec.DecodeError, ValueError) as error:
        return Answer(ok=False, error=str(error))
    log.info("fault: %s", detail)
    return Answer(ok=True, detail=detail)


def inject(fleet: Fleet, fault: Fault) -> str:
    """What was done, in a sentence. Raises ValueError for what cannot be done here."""
    match fault:
        case TrafficSpike(factor, duration_s, service):
            name = fleet.world.spike(service, factor, duration_s)
            return f"The load of {name} is {factor:g} times as high for {duration_s:g} s."
        case KillNode(node, down_s):
            if _berth(fleet, node).agent is None:
                raise NoSuchThing(f"{node} is down already")
            fleet.lose(node, down_s)
            return f"{node} lost power; it boots again in {down_s:g} s."
        case CutConsole(node, duration_s):
            link = _berth(fleet, node).link
            if link is None:
                raise NoSuchThing(f"{node} is down; it has no connection to cut")
            link.cut(duration_s)
            return f"{node} is cut from the console for {duration_s:g} s."
        case GpuError(node, gpu_index, xid):
            fleet.world.xid(_gpu(fleet, node, gpu_index), xid)
            return f"GPU {gpu_index} of {node} reports XID {xid}."
        case _:
            return _make_mischief(fleet, fault)


def _make_mischief(fleet: Fleet, fault: Mischievous) -> str:
    match fault:
        case Silence(nodes, duration_s):
            fleet.mischief.silence(_berths(fleet, nodes), duration_s)
            return f"{_named(nodes)} say nothing for {duration_s:g} s."
        case Lies(lie, nodes, duration_s):
            fleet.mischief.lie(_berths(fleet, nodes), lie, duration_s)
            return f"{_named(nodes)} lie for {duration_s:g} s: {lie}."
        case Flapping(nodes, period_s, duration_s):
            fleet.mischief.flap(_berths(fleet, nodes), period_s, duration_s)
            return f"{_named(nodes)} lose their connection every {period_s:g} s."
        case Skew(skew_s, nodes, duration_s):
            fleet.mischief.skew(_berths(fleet, nodes), skew_s, duration_s)
            return f"The clocks of {_named(nodes)} are off by {skew_s:g} s for {duration_s:g} s."
        case DuplicateUuid(node, of, gpu_index, duration_s):
            uuid = _uuid(fleet, of, gpu_index)
            fleet.mischief.duplicate(_berth(fleet, node), gpu_index, uuid, duration_s)
            return f"GPU {gpu_index} of {node} says for {duration_s:g} s that it is that of {of}."
        case Storm():
            fleet.mischief.cut(_berths(fleet, ()))
            return "All connections broke off at once."


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) or "all nodes"


def _berths(fleet: Fleet, nodes: Sequence[str]) -> Sequence[Berth]:
    return [_berth(fleet, node) for node in nodes] or list(fleet.berths.values())


def _uuid(fleet: Fleet, node: str, gpu_index: int) -> str:
    agent = _berth(fleet, node).agent
    if agent is None or not 0 <= gpu_index < len(agent.identity.gpus):
        raise NoSuchThing(f"{node} is down, or has no GPU {gpu_index}")
    return agent.identity.gpus[gpu_index].inventory.uuid


def _berth(fleet: Fleet, node: str) -> Berth:
    try:
        return fleet.berths[node]
    except KeyError:
        raise NoSuchThing(f"this fleet has no node {node!r}") from None


def _gpu(fleet: Fleet, node: str, gpu_index: int) -> int:
    try:
        return fleet.world.index(node, gpu_index)
    except KeyError:
        raise NoSuchThing(f"this fleet has no GPU {gpu_index} on {node!r}") from None
