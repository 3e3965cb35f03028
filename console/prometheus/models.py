"""Where the customer's Prometheus is, what it is asked, and what it answered.

For pages and the past only: what protects online work is the p99 that the agent reads on its node.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from console.workloads.models import OnlineService


class Source(models.Model):
    """The one source. Labels say whose a series is: `service_label` holds a service's name,
    `node_label` and `gpu_label` (both may be empty) its node and the GPU's index there.

    `failed_why` is of the last fetch; empty: it went well.
    """

    class Unit(models.TextChoices):
        MILLISECONDS = "ms", "milliseconds"
        SECONDS = "s", "seconds"

    url = models.URLField(max_length=500)
    p99_query = models.CharField(max_length=2_000)
    p99_unit = models.CharField(max_length=2, choices=Unit.choices, default=Unit.SECONDS)
    qps_query = models.CharField(max_length=2_000, blank=True)
    service_label = models.CharField(max_length=100, default="service")
    node_label = models.CharField(max_length=100, blank=True)
    gpu_label = models.CharField(max_length=100, blank=True)
    saved_at = models.DateTimeField()
    saved_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True)
    fetched_at = models.DateTimeField(null=True, blank=True)
    failed_why = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_source")]

    def __str__(self) -> str:
        return self.url


class Answer(models.Model):
    """A service at one fetch: the p99 of its slowest instance and their load together. None: it
    was not in the answer."""

    service = models.ForeignKey(OnlineService, models.CASCADE, related_name="+")
    at = models.DateTimeField(db_index=True)
    p99_ms = models.FloatField(null=True)
    qps = models.FloatField(null=True)
    series = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["service", "at"], name="one_answer")]

    def __str__(self) -> str:
        return f"{self.service} at {self.at:%H:%M:%S}"
