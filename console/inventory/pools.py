"""Make a pool."""

from __future__ import annotations

import re
import zoneinfo
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction

from console.accounts import access
from console.accounts.models import Role, User
from console.audit.services import person, record
from console.errors import Invalid, SomebodyWasFirst
from console.inventory.models import Pool

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)


@transaction.atomic
def create(name: str, admin: User, now: datetime, time_zone: str = "UTC") -> Pool:
    """An empty pool at sharing mode observe. Raises PermissionDenied, Invalid, SomebodyWasFirst."""
    access.require(admin, Role.ADMIN)
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name[:60]!r} is no name of a pool.",
            {"name": "Use up to 60 letters, digits and hyphens."},
        )
    if time_zone not in zoneinfo.available_timezones():
        raise Invalid(f"There is no time zone {time_zone[:60]!r}.", {"time_zone": "unknown"})
    try:
        with transaction.atomic():
            pool = Pool.objects.create(name=name, time_zone=time_zone)
    except IntegrityError:
        raise SomebodyWasFirst(f"There is a pool {name} already.") from None
    record(person(admin), "pool.create", pool, now=now)
    return pool
