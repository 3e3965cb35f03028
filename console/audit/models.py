"""The append-only story. Rows are written unsealed in the transaction of what they tell, and
chained afterwards by one sealer, so that writers never wait for each other."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Entry(models.Model):
    """One thing that somebody or something did. `hash` is empty until the sealer came by."""

    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True)
    action = models.CharField(max_length=60, db_index=True)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=64)
    object_name = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    cause_id = models.UUIDField(null=True, blank=True, db_index=True)
    data = models.JSONField(default=dict, blank=True)
    sealed_number = models.BigIntegerField(null=True, unique=True)
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64, blank=True)

    class Meta:
        verbose_name_plural = "entries"
        indexes = [models.Index(fields=["object_type", "object_id"], name="audit_object")]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object_name or self.object_id}"


class Head(models.Model):
    """The end of the chain, one row: without it the last entries could vanish unseen."""

    number = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"sealed up to {self.number}"
