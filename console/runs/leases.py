"""Take, keep and give back a lease by compare-and-set: the database row is the truth."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from console.runs.models import Lease


def acquire(name: str, holder: str, ttl_s: float, now: datetime) -> int | None:
    """The fencing token when `holder` holds the lease until now + ttl_s, else None.

    A holder that asks again keeps its token; a new holder gets a higher one.
    """
    until = now + timedelta(seconds=ttl_s)
    mine = Lease.objects.filter(name=name, holder=holder, until__gt=now)
    if not mine.update(until=until) and not _take(name, holder, until, now):
        return None
    return Lease.objects.filter(name=name, holder=holder).values_list("fence", flat=True).first()


def _take(name: str, holder: str, until: datetime, now: datetime) -> bool:
    free = Q(until__lte=now) | Q(holder="")
    taken = Lease.objects.filter(free, name=name).update(
        holder=holder, fence=F("fence") + 1, until=until
    )
    return bool(taken) or _create(name, holder, until)


def _create(name: str, holder: str, until: datetime) -> bool:
    try:
        with transaction.atomic():
            _, created = Lease.objects.get_or_create(
                name=name, defaults={"holder": holder, "fence": 1, "until": until}
            )
    except IntegrityError:
        return False
    return created


def holds(name: str, holder: str, fence: int, now: datetime) -> bool:
    """True while nobody took the lease since `fence` was given. Check before each commit."""
    return Lease.objects.filter(name=name, holder=holder, fence=fence, until__gt=now).exists()


def renew(name: str, fence: int, ttl_s: float, now: datetime) -> None:
    """Hold it for another `ttl_s`, unless somebody took it since `fence` was given."""
    until = now + timedelta(seconds=ttl_s)
    Lease.objects.filter(name=name, fence=fence).exclude(holder="").update(until=until)


def release(name: str, holder: str, fence: int) -> None:
    Lease.objects.filter(name=name, holder=holder, fence=fence).update(holder="")
