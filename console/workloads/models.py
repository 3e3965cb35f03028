"""Online services with their instances, offline jobs, and the teams that own them."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models

from agents.wire.ids import uuid7
from agents.wire.names import Checkpoint
from console.inventory.models import Gpu, Pool


class Team(models.Model):
    name = models.SlugField(max_length=60, unique=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Footprint(models.Model):
    """What one process needs of a whole card, measured alone. Percent, bytes."""

    sm_percent = models.FloatField()
    gpu_util_percent = models.FloatField()
    memory_bytes = models.BigIntegerField()
    memory_bandwidth_percent = models.FloatField(default=0)

    class Meta:
        abstract = True


class OnlineService(Footprint):
    """A group of online instances; the footprint is one instance at `peak_qps`."""

    name = models.CharField(max_length=128, unique=True)
    team = models.ForeignKey(Team, models.PROTECT, related_name="services")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="services")
    tier = models.PositiveSmallIntegerField(default=2)
    slo_p99_ms = models.FloatField(null=True, blank=True)
    base_p99_ms = models.FloatField(null=True, blank=True)
    peak_qps = models.FloatField(null=True, blank=True)
    metrics_url = models.URLField(blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class OnlineInstance(models.Model):
    """One instance of a service on one GPU, or on a part of it when `gpu_percent` < 100."""

    service = models.ForeignKey(OnlineService, models.CASCADE, related_name="instances")
    gpu = models.ForeignKey(Gpu, models.CASCADE, related_name="instances")
    gpu_percent = models.FloatField(default=100)

    def __str__(self) -> str:
        return f"{self.service} on {self.gpu}"


class OfflineJob(Footprint):
    """An offline job. `work_s` is its length alone on one GPU of `profile_gpu_model`."""

    class State(models.TextChoices):
        PENDING = "PENDING"
        PROFILING = "PROFILING"
        QUEUED = "QUEUED"
        PLACED = "PLACED"
        SUCCEEDED = "SUCCEEDED"
        FAILED = "FAILED"
        CANCELLED = "CANCELLED"

    OPEN = (State.PENDING, State.PROFILING, State.QUEUED, State.PLACED)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=128, db_index=True)
    team = models.ForeignKey(Team, models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True)
    source = models.CharField(max_length=20, default="submitted")
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    state_since = models.DateTimeField()
    priority = models.SmallIntegerField(default=0)
    submitted_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    profile_gpu_model = models.CharField(max_length=80, blank=True)
    gpu_models = models.JSONField(default=list, blank=True)
    pools = models.JSONField(default=list, blank=True)
    command = models.JSONField(default=list, blank=True)
    checkpoint = models.CharField(
        max_length=12,
        choices=[(kind.value, kind.value) for kind in Checkpoint],
        default=Checkpoint.ON_SIGTERM,
    )
    checkpoint_period_s = models.FloatField(default=600)

    work_s = models.FloatField()
    saved_work_s = models.FloatField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    evictions = models.PositiveIntegerField(default=0)
    max_retries = models.PositiveIntegerField(default=3)
    failures = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    wait_reason = models.CharField(max_length=200, blank=True)
    # Faults of a GPU that its processes were the first of, see workloads.backoff.
    faults = models.PositiveIntegerField(default=0)
    last_fault_at = models.DateTimeField(null=True, blank=True)
    held_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["state", "-priority", "submitted_at"], name="job_queue")]

    def __str__(self) -> str:
        return self.name

    def is_held(self, now: datetime) -> bool:
        """Whether no round places it now, because it faulted."""
        return self.held_until is not None and self.held_until > now
