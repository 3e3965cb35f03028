"""Tokens of the REST API: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from console.accounts.models import ApiToken, User
from console.audit.services import person, record
from console.errors import Invalid, SomebodyWasFirst

PREFIX: Final = "mux_"
# The part that lists show, so that a person can tell their tokens apart.
SHOWN_CHARS: Final = 10
# A busy client would otherwise write its row on every call.
LAST_USED_STEP: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=366)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def create(
    user: User, name: str, now: datetime, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """The row and the secret, which is kept nowhere. Raises Invalid when it could never be used."""
    if not name.strip():
        raise Invalid("Name the token after what will use it.", {"name": "This is empty."})
    if expires_at is not None and not now < expires_at <= now + LONGEST:
        raise Invalid(
            "A token expires within a year from now.",
            {"expires_at": f"Choose a time up to {now + LONGEST:%d %b %Y}."},
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=name.strip(),
        prefix=secret[:SHOWN_CHARS],
        sha256=digest(secret),
        created_at=now,
        expires_at=expires_at,
    )
    record(person(user), "token.create", token, now=now)
    return token, secret


@transaction.atomic
def revoke(token: ApiToken, user: User, now: datetime) -> None:
    """Closes the token at once. Raises SomebodyWasFirst when it is closed already."""
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        raise SomebodyWasFirst(f"The token {token.name} was revoked already.")
    record(person(user), "token.revoke", token, now=now)


def find(secret: str, now: datetime) -> ApiToken | None:
    """The valid token with this secret, marked as used; None when there is none.

    The row is found by the hash of the secret, so the time it takes tells nothing of it.
    """
    alive = Q(expires_at=None) | Q(expires_at__gt=now)
    token = (
        ApiToken.objects.filter(alive, sha256=digest(secret), revoked_at=None, user__is_active=True)
        .select_related("user")
        .first()
    )
    if token is not None:
        _mark_used(token, now)
    return token


def _mark_used(token: ApiToken, now: datetime) -> None:
    if token.last_used_at is None or token.last_used_at <= now - LAST_USED_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
