"""The chain: each sealed entry carries the hash of the one before. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

# What stands before the first entry.
START: Final = "0" * 64


@dataclass(frozen=True)
class Link:
    """One entry as it was sealed; `facts` is all that the hash covers besides its place."""

    number: int
    facts: dict[str, Any]
    previous_hash: str
    hash: str


def hash_of(number: int, previous_hash: str, facts: dict[str, Any]) -> str:
    """SHA-256 over canonical JSON (RFC 8785 in spirit: sorted keys, no spaces, UTF-8)."""
    text = json.dumps(
        [number, previous_hash, facts],
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        default=_plain,
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)


@dataclass(frozen=True)
class Fault:
    """Where the chain is broken, and how."""

    number: int
    what: str


def faults(links: Iterable[Link], head_number: int, head_hash: str) -> Iterator[Fault]:
    """Every place where a row was changed, removed or put in; nothing when all is as sealed.

    `links` come in the order of their numbers. The head is kept apart from the entries, so
    that the last of them cannot vanish unseen.
    """
    number, previous = 0, START
    for link in links:
        if link.number != number + 1:
            yield Fault(number + 1, _missing(number + 1, link.number - 1))
        elif link.previous_hash != previous:
            yield Fault(link.number, "does not follow from the entry before it")
        if link.hash != hash_of(link.number, link.previous_hash, link.facts):
            yield Fault(link.number, "was changed after it was sealed")
        number, previous = link.number, link.hash
    if number < head_number:
        yield Fault(number + 1, _missing(number + 1, head_number))
    elif (number, previous) != (head_number, head_hash):
        yield Fault(number, "is not the entry that was sealed last")


def _missing(first: int, last: int) -> str:
    return "was removed" if first == last else f"to {last} were removed"
