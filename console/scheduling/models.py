"""Rounds, what they decided and why, and the placements that came of it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.wire.ids import uuid7
from agents.wire.names import EndReason, PlacementState
from console.inventory.models import Gpu
from console.policies.rules import Default
from console.scheduling.plan_lifecycle import PlanState
from console.workloads.models import OfflineJob


class Round(models.Model):
    """One matching round over one scope. Weight is Σ priority × predicted throughput."""

    class State(models.TextChoices):
        RUNNING = "RUNNING"
        DONE = "DONE"
        FAILED = "FAILED"
        # Asked for, and not begun: `skipped_why` says why.
        SKIPPED = "SKIPPED"

    class Kind(models.TextChoices):
        ENFORCE = "enforce"
        SHADOW = "shadow"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    trigger = models.CharField(max_length=60, default="schedule")
    # The message that asked for it: one that is delivered twice begins one round.
    call_id = models.CharField(max_length=64, blank=True)
    skipped_why = models.CharField(max_length=200, blank=True)
    fence = models.BigIntegerField(default=0)
    snapshot_id = models.UUIDField(null=True, blank=True)
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
    # Who predicted; what the independent certifier took; began from the last round's prices; out
    # of time, so that everything stayed where it was. None: not told.
    predictor = models.CharField(max_length=120, blank=True)
    certified_s = models.FloatField(null=True, blank=True)
    warm = models.BooleanField(null=True, blank=True)
    late = models.BooleanField(default=False)
    # By job class: where the next round starts from. Only the newest round keeps them.
    prices = models.JSONField(null=True, blank=True)
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
    # The ends of the 90 % intervals of both.
    throughput_low = models.FloatField(null=True, blank=True)
    throughput_high = models.FloatField(null=True, blank=True)
    slowdown_low = models.FloatField(null=True, blank=True)
    slowdown_high = models.FloatField(null=True, blank=True)
    sm_share_percent = models.FloatField(null=True, blank=True)
    # In GPUs: what the plan would lose without the GPU, and with the next best job on it.
    price = models.FloatField(null=True, blank=True)
    runner_up = models.CharField(max_length=200, blank=True)
    runner_up_loss = models.FloatField(null=True, blank=True)
    # Why a prediction is out of the range of what was learned.
    flags = models.JSONField(default=list, blank=True)
    code = models.CharField(max_length=40)
    why = models.CharField(max_length=300)

    class Meta:
        indexes = [models.Index(fields=["round", "kind", "code"], name="decision_kind")]

    def __str__(self) -> str:
        return f"{self.kind} {self.job or self.gpu}"


class MovePlan(models.Model):
    """The moves of a round, decided as one: evictions of that round. `struck` were left out.

    Only `move_plans` writes `state`; plan_lifecycle.py says what may follow.
    """

    State = PlanState

    # What happens to all of it when nobody decides.
    DEFAULTS = ((Default.RUN.value, "it runs"), (Default.KEEP.value, "it is dropped"))

    round = models.OneToOneField(Round, models.CASCADE, related_name="plan", primary_key=True)
    state = models.CharField(
        max_length=10, choices=[(state.value, state.value.capitalize()) for state in PlanState]
    )
    state_since = models.DateTimeField()
    proposed_at = models.DateTimeField()
    deadline_at = models.DateTimeField(null=True, blank=True)
    default = models.CharField(max_length=4, choices=DEFAULTS, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reason = models.TextField(blank=True)
    struck = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"the moves of round {self.round_id}"


class AvoidEntry(models.Model):
    """This job does not go to this GPU before `expires_at`, unless a person lifts it."""

    job = models.ForeignKey(OfflineJob, models.CASCADE, related_name="avoids")
    gpu = models.ForeignKey(Gpu, models.CASCADE, related_name="avoided_by")
    origin = models.CharField(max_length=14)
    why = models.CharField(max_length=300)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        # At most one of a pair: what comes later extends it.
        constraints = [models.UniqueConstraint(fields=["job", "gpu"], name="one_avoid_per_pair")]

    def __str__(self) -> str:
        return f"{self.job} not on {self.gpu}"


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
    # What a restart for the larger share would be worth; empty: no larger one waits.
    pending_why = models.CharField(max_length=200, blank=True)
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
