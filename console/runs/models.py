"""Leases with fencing tokens, and every long piece of work."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from agents.wire.ids import uuid7


class Lease(models.Model):
    """Who may do a thing that one alone may do. `fence` grows with every new holder."""

    name = models.CharField(max_length=80, primary_key=True)
    holder = models.CharField(max_length=120, blank=True)
    fence = models.BigIntegerField(default=0)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name}, held by {self.holder or 'nobody'}"


class Run(models.Model):
    """One long piece of work: started by somebody, seen by all, found again after leaving."""

    class State(models.TextChoices):
        QUEUED = "QUEUED"
        RUNNING = "RUNNING"
        SUCCEEDED = "SUCCEEDED"
        FAILED = "FAILED"
        CANCELLED = "CANCELLED"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=40)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    progress = models.FloatField(default=0)
    message = models.CharField(max_length=300, blank=True)
    arguments = models.JSONField(default=dict, blank=True)
    result = models.JSONField(default=dict, blank=True)
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    cancel_wanted = models.BooleanField(default=False)
    fence = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.kind} {self.state.lower()}"
