"""How many jobs of a team may hold a GPU at once."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction

from console import doorbell
from console.accounts import access
from console.accounts.models import Role, User
from console.audit.services import person, record
from console.errors import Invalid
from console.workloads.models import Team

MOST: Final = 1_000_000


def read(text: str) -> int | None:
    """As typed; empty is no cap. Raises Invalid."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise Invalid(f"{text[:20]!r} is no number of jobs.", {"max_running": "a whole number"})
    return int(text[:10])


@transaction.atomic
def set_cap(team: Team, max_running: int | None, admin: User, now: datetime) -> None:
    """From the next round on; None: as many as find one. What runs already goes on.

    Raises PermissionDenied, Invalid.
    """
    access.require(admin, Role.ADMIN)
    if max_running is not None and not 0 <= max_running <= MOST:
        raise Invalid(f"Write a number from 0 to {MOST:,}, or nothing for no cap.")
    Team.objects.filter(pk=team.pk).update(max_running=max_running)
    before, team.max_running = team.max_running, max_running
    record(person(admin), "team.cap", team, now=now, before=before, after=max_running)
    doorbell.ring(doorbell.RUN_ROUND)
