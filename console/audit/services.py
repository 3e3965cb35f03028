"""Write the story, chain it, and check the chain."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Model

from console.accounts.models import User
from console.audit import chain
from console.audit.models import Entry, Head
from console.errors import SomebodyWasFirst
from console.runs import leases

# Entries sealed in one transaction; faults shown of one check.
SEAL_ROWS: Final = 1_000
FAULTS_SHOWN: Final = 20
_LEASE: Final = "audit.seal"
_LEASE_S: Final = 30.0


@dataclass(frozen=True)
class Actor:
    """Who did it: a person, an agent, or a part of the console such as `system:matching`."""

    name: str
    user: User | None = None


def person(user: User) -> Actor:
    return Actor(f"user:{user.get_username()}", user)


def agent(node_name: str) -> Actor:
    return Actor(f"agent:{node_name}")


def system(part: str) -> Actor:
    return Actor(f"system:{part}")


def record(
    actor: Actor,
    action: str,
    subject: Model,
    *,
    now: datetime,
    reason: str = "",
    cause_id: UUID | None = None,
    **data: Any,
) -> Entry:
    """One entry, for example `record(person(u), "eviction.approve", eviction, now=now)`.

    Called inside the transaction of the change that it tells.
    """
    return Entry.objects.create(
        at=now,
        actor=actor.name,
        user=actor.user,
        action=action,
        object_type=subject._meta.label_lower,
        object_id=str(subject.pk),
        object_name=str(subject)[:200],
        reason=reason,
        cause_id=cause_id,
        data=data,
    )


def seal(now: datetime) -> int:
    """Chain the entries that are not sealed yet; how many. 0 while another sealer is at it."""
    holder = f"{socket.gethostname()}:{os.getpid()}"
    fence = leases.acquire(_LEASE, holder, _LEASE_S, now)
    if fence is None:
        return 0
    try:
        return _seal(holder, fence, now)
    except SomebodyWasFirst:
        return 0


@transaction.atomic
def _seal(holder: str, fence: int, now: datetime) -> int:
    head, _ = Head.objects.get_or_create(pk=1, defaults={"hash": chain.START})
    number, previous = head.number, head.hash
    entries = list(Entry.objects.filter(sealed_number=None).order_by("pk")[:SEAL_ROWS])
    for entry in entries:
        number += 1
        sealed = chain.hash_of(number, previous, _facts(entry))
        Entry.objects.filter(pk=entry.pk).update(
            sealed_number=number, previous_hash=previous, hash=sealed
        )
        previous = sealed
    if not entries:
        return 0
    mine = Head.objects.filter(pk=1, number=head.number)
    moved = mine.update(number=number, hash=previous)
    if not moved or not leases.holds(_LEASE, holder, fence, now):
        raise SomebodyWasFirst("Another sealer took over.")
    return len(entries)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found: `sealed` entries in the chain, `waiting` ones not yet in it."""

    sealed: int
    waiting: int
    faults: tuple[chain.Fault, ...]


def verify() -> Verdict:
    """Compute every hash again. `faults` names the first places that were tampered with."""
    head = Head.objects.filter(pk=1).first() or Head(number=0, hash=chain.START)
    found = chain.faults(_links(head.number), head.number, head.hash)
    return Verdict(
        sealed=head.number,
        waiting=Entry.objects.filter(sealed_number=None).count(),
        faults=tuple(islice(found, FAULTS_SHOWN)),
    )


def _links(up_to: int) -> Iterator[chain.Link]:
    """What is sealed while we look comes after the head that we read, and is left out."""
    sealed = Entry.objects.filter(sealed_number__lte=up_to).order_by("sealed_number")
    for entry in sealed.iterator(chunk_size=1_000):
        number = entry.sealed_number or 0
        yield chain.Link(number, _facts(entry), entry.previous_hash, entry.hash)


def _facts(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _SEALED_FIELDS}


_SEALED_FIELDS: Final = (
    "at",
    "actor",
    "action",
    "object_type",
    "object_id",
    "object_name",
    "reason",
    "cause_id",
    "data",
)
