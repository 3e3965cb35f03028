"""Rounds, what they decided and why, and the placements that came of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agents.wire.ids import uuid7
from agents.wire.names import EndReason, PlacementState
from console.inventory.models import Gpu
from console.workloads.models import OfflineJob


class Round(models.Model):
    """One matching round over one scope. Weight is Σ priority × predicted throughput."""

    class State(models.TextChoices):
        RUNNING = "RUNNING"
        DONE = "DONE"
        FAILED = "FAILED"

    class Kind(models.TextChoices):
        ENFORCE = "enforce"
        SHADOW = "shadow"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    trigger = models.CharField(max_length=60, default="schedule")
    fence = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    gpus = models.PositiveIntegerField(default=0)
    jobs = models.PositiveIntegerField(default=0)
    pairs = models.PositiveBigIntegerField(default=0)
    # Σ predicted throughput of all that runs or was placed, and the same times priority.
    predicted_gpus = models.FloatField(null=True, blank=True)
    objective = models.FloatField(null=True, blank=True)
    upper_bound = models.FloatField(null=True, blank=True)
    previous_objective = models.FloatField(null=True, blank=True)
    placed = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    moves = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    # What the round saw: GPUs open, jobs waiting, distinct rows and job classes, predictor.
    inputs = models.JSONField(default=dict, blank=True)
    # Where the time went, by phase.
    seconds = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"round {self.pk}"


class Decision(models.Model):
    """What a round says of one job or one GPU. `code` groups, `why` is the sentence shown."""

    class Kind(models.TextChoices):
        PLACE = "place"
        KEEP = "keep"
        MOVE = "move"
        WAIT = "wait"
        UNUSED = "unused"

    round = models.ForeignKey(Round, models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    job = models.ForeignKey(OfflineJob, models.CASCADE, null=True, blank=True)
    gpu = models.ForeignKey(Gpu, models.CASCADE, null=True, blank=True, related_name="decisions")
    from_gpu = models.ForeignKey(Gpu, models.CASCADE, null=True, blank=True, related_name="+")
    weight = models.FloatField(null=True, blank=True)
    predicted_throughput = models.FloatField(null=True, blank=True)
    predicted_online_slowdown = models.FloatField(null=True, blank=True)
    sm_share_percent = models.FloatField(null=True, blank=True)
    code = models.CharField(max_length=40)
    why = models.CharField(max_length=300)

    class Meta:
        indexes = [models.Index(fields=["round", "kind", "code"], name="decision_kind")]

    def __str__(self) -> str:
        return f"{self.kind} {self.job or self.gpu}"


class Placement(models.Model):
    """One attempt of a job on a GPU. Started at most once, ever; a new attempt is a new row."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    job = models.ForeignKey(OfflineJob, models.CASCADE, related_name="placements")
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="placements")
    round = models.ForeignKey(Round, models.SET_NULL, null=True, blank=True)
    state = models.CharField(
        max_length=10,
        choices=[(state.value, state.value) for state in PlacementState],
        default=PlacementState.DESIRED,
    )
    state_since = models.DateTimeField()
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(
        max_length=20, blank=True, choices=[(reason.value, reason.value) for reason in EndReason]
    )
    # No new attempt of the job may start before this: lease and longest stop time are over.
    lease_until = models.DateTimeField(null=True, blank=True)

    # Limits: what we want, and what the node says is true (None: not reported).
    sm_share_percent = models.FloatField()
    duty_percent = models.FloatField(null=True, blank=True)
    memory_quota_bytes = models.BigIntegerField()
    effective_sm_share_percent = models.FloatField(null=True, blank=True)
    effective_duty_percent = models.FloatField(null=True, blank=True)
    effective_memory_quota_bytes = models.BigIntegerField(null=True, blank=True)
    pending_sm_share_percent = models.FloatField(null=True, blank=True)
    # Processes under xCUDA, of those that use CUDA; and what the node has to say of it all.
    xcuda_processes = models.PositiveIntegerField(null=True, blank=True)
    cuda_processes = models.PositiveIntegerField(null=True, blank=True)
    remarks = models.JSONField(default=list, blank=True)

    predicted_throughput = models.FloatField(null=True, blank=True)
    observed_throughput = models.FloatField(null=True, blank=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    progress = models.FloatField(null=True, blank=True)
    resume_work_s = models.FloatField(default=0)
    work_done_s = models.FloatField(default=0)
    unsaved_work_s = models.FloatField(null=True, blank=True)
    lost_work_s = models.FloatField(null=True, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job"], condition=~Q(state="ENDED"), name="one_live_placement_per_job"
            ),
            models.UniqueConstraint(
                fields=["gpu"], condition=~Q(state="ENDED"), name="one_live_placement_per_gpu"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job} on {self.gpu}"
