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
    # Its jobs that may hold a GPU at once; None: as many as find one.
    max_running = models.PositiveIntegerField(null=True, blank=True)

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
    occupancy_percent = models.FloatField(null=True, blank=True)

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
    # No offline job is placed beside any instance of it.
    never_share = models.BooleanField(default=False)

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


class ServiceProfile(Footprint):
    """What an instance of a service uses on one GPU model, as measured there: the 95th percentile,
    of memory the most.

    `counts` are the samples it is taken of, by signal and bin (`workloads.digest`), the older the
    less they count. `since` is the first, `measured_at` the last of them.
    """

    service = models.ForeignKey(OnlineService, models.CASCADE, related_name="profiles")
    gpu_model = models.CharField(max_length=80)
    since = models.DateTimeField()
    measured_at = models.DateTimeField()
    samples = models.PositiveBigIntegerField(default=0)
    p99_ms = models.FloatField(null=True, blank=True)
    qps = models.FloatField(null=True, blank=True)
    counts = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["gpu_model"]
        constraints = [
            models.UniqueConstraint(fields=["service", "gpu_model"], name="one_service_profile")
        ]

    def __str__(self) -> str:
        return f"{self.service} on {self.gpu_model}"


class OfflineJob(Footprint):
    """An offline job. `work_s` is its length alone on one GPU of `profile_gpu_model`.

    The footprint is its profile in force, rounded so that like jobs share one (`quantise`); where
    it comes from is `profile_source`. `profile_key` names jobs of one template: what one of them
    measured holds for the others. `proven_at`: it has run long enough without a fault.
    """

    class State(models.TextChoices):
        PENDING = "PENDING"
        PROFILING = "PROFILING"
        QUEUED = "QUEUED"
        PLACED = "PLACED"
        SUCCEEDED = "SUCCEEDED"
        FAILED = "FAILED"
        CANCELLED = "CANCELLED"

    OPEN = (State.PENDING, State.PROFILING, State.QUEUED, State.PLACED)

    class ProfileSource(models.TextChoices):
        USER = "user", "given by the submitter"
        MEASURED = "measured", "measured"
        HISTORY = "history", "measured on a job like it"
        CONSERVATIVE = "conservative", "conservative"

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

    profile_source = models.CharField(
        max_length=12, choices=ProfileSource.choices, default=ProfileSource.USER
    )
    profile_gpu_model = models.CharField(max_length=80, blank=True)
    profile_measured_at = models.DateTimeField(null=True, blank=True)
    profile_key = models.CharField(max_length=32, blank=True)
    # How it came about, to stand behind its source: "no free GPU within 10 min".
    profile_why = models.CharField(max_length=200, blank=True)
    step_s = models.FloatField(null=True, blank=True)
    proven_at = models.DateTimeField(null=True, blank=True)

    # What it needs of its node. Labels are `key=value`, all required; None: not stated.
    gpus = models.PositiveSmallIntegerField(default=1)
    cpu_cores = models.FloatField(null=True, blank=True)
    host_memory_bytes = models.BigIntegerField(null=True, blank=True)
    labels = models.JSONField(default=list, blank=True)
    image = models.CharField(max_length=300, blank=True)
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
        indexes = [
            models.Index(fields=["state", "-priority", "submitted_at"], name="job_queue"),
            models.Index(fields=["profile_key", "-profile_measured_at"], name="job_profile"),
        ]

    def __str__(self) -> str:
        return self.name

    def is_held(self, now: datetime) -> bool:
        """Whether no round places it now, because it faulted."""
        return self.held_until is not None and self.held_until > now
