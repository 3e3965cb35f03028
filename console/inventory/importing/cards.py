"""Memory of the cards that inventories name without its size. Listed in docs/import.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

GIB: Final = 1 << 30


class Card(NamedTuple):
    """`assumed` where the model's name is made up, so that nobody can know its memory."""

    memory_bytes: int
    assumed: bool = False


CARDS: Final[Mapping[str, Card]] = {
    "P100": Card(16 * GIB),
    "T4": Card(16 * GIB),
    "V100M16": Card(16 * GIB),
    "V100M32": Card(32 * GIB),
    "A10": Card(24 * GIB),
    "G1": Card(16 * GIB, assumed=True),
    "G2": Card(24 * GIB, assumed=True),
    "G3": Card(80 * GIB, assumed=True),
}


def card(model: str) -> Card:
    """Raises KeyError with the sentence that says what to do."""
    try:
        return CARDS[model]
    except KeyError:
        raise KeyError(
            f"GPU model {model!r} is unknown: add its memory to inventory/importing/cards.py"
        ) from None
