"""Which row is which card, when a node tells what it holds. Pure.

The UUID is the identity, the index only a slot: a card that changed slots keeps its row, another
card in the same slot retires the old row, and a card that left and came back takes up its row. An
imported card whose UUID nobody knew is whatever is found in its slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agents.wire.messages import GpuInventory

# Begins the made-up identity of a card whose UUID is not known yet.
PLACEHOLDER: Final = "imported:"


def placeholder(node: str, index: int) -> str:
    return f"{PLACEHOLDER}{node}:{index}"


@dataclass(frozen=True)
class Row:
    """A GPU as the database knows it on this node; `live` until it is retired."""

    id: int
    uuid: str
    index: int
    live: bool
    conflict: bool = False


@dataclass(frozen=True)
class Plan:
    """What to do so that the rows tell what the node holds. `missing` keep their slot: a card that
    fell off the bus is expected back."""

    keep: tuple[tuple[Row, GpuInventory], ...]
    create: tuple[GpuInventory, ...]
    retire: tuple[Row, ...]
    missing: tuple[Row, ...]


def plan(rows: Iterable[Row], claims: Sequence[GpuInventory]) -> Plan:
    free = sorted(rows, key=lambda row: (not row.live, -row.id))
    keep: list[tuple[Row, GpuInventory]] = []
    create: list[GpuInventory] = []
    for claim in sorted(claims, key=lambda claim: not _in_place(free, claim)):
        row = _in_place(free, claim) or _by_uuid(free, claim) or _by_slot(free, claim)
        if row is None:
            create.append(claim)
        else:
            free.remove(row)
            keep.append((row, claim))
    left = [row for row in free if row.live]
    slots = {claim.index for claim in claims}
    gone = [row for row in left if row.index in slots or row.conflict]
    return Plan(
        tuple(keep),
        tuple(create),
        tuple(gone),
        tuple(row for row in left if row not in gone),
    )


def _in_place(rows: Sequence[Row], claim: GpuInventory) -> Row | None:
    return next(
        (r for r in rows if r.live and r.uuid == claim.uuid and r.index == claim.index), None
    )


def _by_uuid(rows: Sequence[Row], claim: GpuInventory) -> Row | None:
    return next((row for row in rows if row.uuid == claim.uuid), None)


def _by_slot(rows: Sequence[Row], claim: GpuInventory) -> Row | None:
    return next(
        (r for r in rows if r.uuid.startswith(PLACEHOLDER) and r.index == claim.index), None
    )
