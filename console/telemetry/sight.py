"""Which pools a person sees on the live map: those in which they hold any role."""

from __future__ import annotations

from console.accounts.access import pools_for, sees_all
from console.accounts.models import Role, User
from console.telemetry.view import EVERYTHING, Sight


def sight(user: User) -> Sight:
    """Asks the database."""
    if sees_all(user):
        return EVERYTHING
    return frozenset(pools_for(user, Role.VIEWER).values_list("pk", flat=True))
