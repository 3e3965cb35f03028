"""What was observed of pairs, the predictors learnt from it, and how well they do."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from console.predictor.lifecycle import State
from console.runs.models import Run
from console.scheduling.models import Placement

SIMULATED = "simulated:"


class PairObservation(models.Model):
    """An online service and a job on one GPU, averaged over a window in which nothing was changed.

    Percent are of one whole card, memory of that card's. `throughput` is the job's speed as a
    fraction of its speed alone; `slowdown` and `p99_ratio` are the online side's against alone.
    None: not known. Without a placement it was imported.
    """

    placement = models.ForeignKey(Placement, models.SET_NULL, null=True, blank=True)
    at = models.DateTimeField(db_index=True)
    window_s = models.FloatField()
    simulated = models.BooleanField()
    gpu_model = models.CharField(max_length=80)
    service = models.CharField(max_length=128)
    job = models.CharField(max_length=128)
    family = models.CharField(max_length=128)
    sm_share_percent = models.FloatField()
    duty_percent = models.FloatField(null=True, blank=True)

    online_sm_percent = models.FloatField()
    online_util_percent = models.FloatField()
    online_occupancy_percent = models.FloatField(null=True, blank=True)
    online_bandwidth_percent = models.FloatField(null=True, blank=True)
    online_memory_percent = models.FloatField()
    job_sm_percent = models.FloatField()
    job_util_percent = models.FloatField()
    job_occupancy_percent = models.FloatField(null=True, blank=True)
    job_bandwidth_percent = models.FloatField(null=True, blank=True)
    job_memory_percent = models.FloatField()
    job_step_s = models.FloatField(null=True, blank=True)

    throughput = models.FloatField()
    slowdown = models.FloatField(null=True, blank=True)
    p99_ratio = models.FloatField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["placement", "at"], name="one_observation_a_window")
        ]
        indexes = [models.Index(fields=["service", "family"], name="observation_pair")]

    def __str__(self) -> str:
        return f"{self.service} with {self.job}"

    @property
    def card(self) -> str:
        """The GPU model as predictors name it: a simulated one is never taken for a real one."""
        return f"{SIMULATED}{self.gpu_model}" if self.simulated else self.gpu_model


class SoloLatency(models.Model):
    """The p99 of a service without a neighbour, at one level of load; a running mean."""

    service = models.CharField(max_length=128)
    gpu_model = models.CharField(max_length=80)
    load_step = models.PositiveSmallIntegerField()
    p99_ms = models.FloatField()
    samples = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["service", "gpu_model", "load_step"], name="one_solo_latency"
            )
        ]

    def __str__(self) -> str:
        return f"{self.service} alone at load step {self.load_step}"


class PredictorVersion(models.Model):
    """A trained predictor with the report of its hold-out. `data` is its file, empty once old."""

    number = models.PositiveIntegerField(unique=True)
    state = models.CharField(
        max_length=10, choices=[(s.value, s.value) for s in State], default=State.CANDIDATE
    )
    state_since = models.DateTimeField()
    simulated = models.BooleanField()
    made_at = models.DateTimeField()
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True)
    # The version in force before this one; none: the analytic estimate was.
    replaced = models.ForeignKey("self", models.SET_NULL, null=True, blank=True)
    data = models.BinaryField()
    sha256 = models.CharField(max_length=64)
    report = models.JSONField(default=dict, blank=True)
    changed_by = models.CharField(max_length=150)
    why = models.CharField(max_length=1_000, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="ACTIVE"), name="one_active_version"
            )
        ]

    def __str__(self) -> str:
        return f"predictor v{self.number}"

    @property
    def word(self) -> str:
        return f"Version {self.number}"

    @property
    def who(self) -> str:
        """`by ortega`; "" for what the console did by itself."""
        kind, _, name = self.changed_by.partition(":")
        return f"by {name}" if kind == "user" else ""


class DriftSample(models.Model):
    """How well what was in force did on what was observed since; no version: the estimate."""

    at = models.DateTimeField(db_index=True)
    version = models.ForeignKey(PredictorVersion, models.CASCADE, null=True, related_name="drift")
    observations = models.PositiveIntegerField()
    mae = models.FloatField()
    out_of_range_share = models.FloatField()

    def __str__(self) -> str:
        return f"error {self.mae:.3f} of {self.version or 'the analytic estimate'}"


class Learning(models.Model):
    """The one row of how learning goes on: by itself or not, and whether workers can train."""

    automatic = models.BooleanField(default=True)
    changed_by = models.CharField(max_length=150, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    # What a worker last said of its trainer: its name, or why there is none.
    trainer = models.CharField(max_length=80, blank=True)
    no_trainer = models.CharField(max_length=300, blank=True)
    looked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"learning {'by itself' if self.automatic else 'by hand'}"
