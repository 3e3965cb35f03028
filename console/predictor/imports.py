"""Observations from a file that a person sends."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from console.accounts.models import User
from console.announce import announce
from console.audit.services import person, record
from console.predictor import exchange, observing, registry
from console.predictor.models import PairObservation


@transaction.atomic
def take(text: str, user: User, now: datetime) -> int:
    """How many rows were written. Raises PermissionDenied, and Invalid: then none was."""
    registry.require_engineer(user)
    rows = exchange.read(text, now)
    PairObservation.objects.bulk_create(rows, batch_size=500)
    observing.forget()
    subject = registry.learning()
    record(person(user), "predictor.import", subject, now=now, observations=len(rows))
    announce("predictor")
    return len(rows)
