"""Write the story. Called inside the transaction of the change that it tells."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model

from console.accounts.models import User
from console.audit.models import Entry


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
    """One entry, for example `record(person(u), "eviction.approve", eviction, now=now)`."""
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
