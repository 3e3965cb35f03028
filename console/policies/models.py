"""Policies and their immutable versions."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Policy(models.Model):
    """A named set of rules; pools point at it, `current` is the version in force."""

    name = models.CharField(max_length=60, unique=True)
    slug = models.SlugField(max_length=60, unique=True)
    current = models.ForeignKey(
        "PolicyVersion", models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        verbose_name_plural = "policies"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PolicyVersion(models.Model):
    """One version, never changed once written. `body` is `rules.PolicyBody` as JSON."""

    policy = models.ForeignKey(Policy, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    body = models.JSONField()
    created_at = models.DateTimeField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="one_number")]
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"{self.policy.name} v{self.number}"
