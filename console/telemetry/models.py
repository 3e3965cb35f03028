"""What the fleet told: events as they came, and samples of the whole for before and after."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agents.wire.names import EventKind
from console.inventory.models import Gpu, Node, Pool


class NodeEvent(models.Model):
    """One event of an agent, stored once however often it was sent."""

    event_id = models.UUIDField(primary_key=True)
    node = models.ForeignKey(Node, models.CASCADE, related_name="events")
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in EventKind])
    at = models.DateTimeField(db_index=True)
    received_at = models.DateTimeField()
    gpu = models.ForeignKey(Gpu, models.CASCADE, null=True, blank=True, related_name="events")
    placement_id = models.UUIDField(null=True, blank=True, db_index=True)
    eviction_id = models.UUIDField(null=True, blank=True)
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["gpu", "-at"], name="event_gpu"),
            models.Index(fields=["at"], name="event_frozen", condition=Q(kind=EventKind.FROZEN)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.gpu or self.node}"


class FleetSample(models.Model):
    """One pool at one moment. Means are over the GPUs that reported the signal; None: nobody did.

    `equivalent_gpus` is Σ normalised throughput of the offline jobs running; the `*_total`
    fields count GPU-seconds of the world clock since the pool exists.
    """

    at = models.DateTimeField(db_index=True)
    pool = models.ForeignKey(Pool, models.CASCADE)
    gpus = models.PositiveIntegerField()
    reporting = models.PositiveIntegerField()
    sharing = models.PositiveIntegerField(default=0)
    running = models.PositiveIntegerField(default=0)
    sm_activity_percent = models.FloatField(null=True)
    gpu_util_percent = models.FloatField(null=True)
    memory_percent = models.FloatField(null=True)
    online_p99_slo_ratio = models.FloatField(null=True)
    online_p99_slo_ratio_worst = models.FloatField(null=True)
    services_over_slo = models.PositiveIntegerField(default=0)
    equivalent_gpus = models.FloatField(default=0)
    equivalent_gpu_s_total = models.FloatField(default=0)
    lost_work_s_total = models.FloatField(default=0)
    restart_s_total = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "at"], name="one_sample")]

    def __str__(self) -> str:
        return f"{self.pool} at {self.at:%H:%M:%S}"
