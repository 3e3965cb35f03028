"""Every take-off of a running job, with its evidence and its phases."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.wire.ids import uuid7
from agents.wire.names import Origin, Phase
from console.evictions import lifecycle
from console.inventory.models import Gpu
from console.policies.rules import Default
from console.scheduling.models import Placement, Round


class Eviction(models.Model):
    """One take-off. Only `evictions.services` writes `state`; lifecycle.py says what may follow."""

    State = lifecycle.State
    OPEN = lifecycle.OPEN

    class Review(models.TextChoices):
        NOT_NEEDED = "not_needed", "not needed"
        WANTED = "wanted"
        DONE = "done"

    # What happens without a decision, as the one line says it.
    DEFAULTS = ((Default.RUN.value, "it runs"), (Default.KEEP.value, "it is dropped"))

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    placement = models.ForeignKey(Placement, models.CASCADE, related_name="evictions")
    gpu = models.ForeignKey(Gpu, models.PROTECT, related_name="evictions")
    round = models.ForeignKey(Round, models.SET_NULL, null=True, blank=True)
    origin = models.CharField(max_length=14, choices=[(o.value, o.value) for o in Origin])
    state = models.CharField(
        max_length=12, choices=[(state.value, state.value.capitalize()) for state in State]
    )
    state_since = models.DateTimeField()
    phase = models.CharField(
        max_length=16, blank=True, choices=[(phase.value, phase.value) for phase in Phase]
    )
    proposed_at = models.DateTimeField(db_index=True)
    deadline_at = models.DateTimeField(null=True, blank=True)
    default = models.CharField(max_length=4, choices=DEFAULTS, blank=True)
    dispatch_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    finished_first = models.BooleanField(default=False)

    why = models.CharField(max_length=300)
    evidence = models.JSONField(default=dict, blank=True)
    to_gpu = models.ForeignKey(Gpu, models.SET_NULL, null=True, blank=True, related_name="+")
    grace_s = models.FloatField(default=30)
    expected_lost_work_s = models.FloatField(null=True, blank=True)
    lost_work_s = models.FloatField(null=True, blank=True)
    freed_bytes = models.BigIntegerField(null=True, blank=True)
    reaction_ms = models.FloatField(null=True, blank=True)

    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True)
    review = models.CharField(max_length=10, choices=Review.choices, default=Review.NOT_NEEDED)
    reviewed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reviewed_at = models.DateTimeField(null=True, blank=True)
    cause_id = models.UUIDField(null=True, blank=True)
    # The node began it by itself. The job is cancelled too, whatever the origin.
    by_node = models.BooleanField(default=False)
    cancels = models.BooleanField(default=False)

    class Meta:
        ordering = ["-proposed_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["placement"],
                condition=Q(state__in=["PROPOSED", "APPROVED", "DISPATCHED", "STOPPING", "STUCK"]),
                name="one_open_eviction_per_placement",
            )
        ]

    def __str__(self) -> str:
        return f"{self.placement.job} off {self.gpu}"

    @property
    def restarts(self) -> bool:
        """The job starts again where it is, with another share."""
        return self.to_gpu_id == self.gpu_id


class EvictionPhase(models.Model):
    """When a phase of the stop was reached, by the agent's clock."""

    eviction = models.ForeignKey(Eviction, models.CASCADE, related_name="phases")
    phase = models.CharField(max_length=16, choices=[(phase.value, phase.value) for phase in Phase])
    at = models.DateTimeField()

    class Meta:
        ordering = ["at"]
        constraints = [models.UniqueConstraint(fields=["eviction", "phase"], name="phase_once")]

    def __str__(self) -> str:
        return f"{self.phase} of {self.eviction_id}"


class Silence(models.Model):
    """Keep running was chosen: this origin proposes nothing for this placement until then."""

    placement = models.ForeignKey(Placement, models.CASCADE)
    origin = models.CharField(max_length=14)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"no {self.origin} of {self.placement_id} until {self.until}"
