"""Pools, nodes, GPUs, and what may be done on them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.wire.names import GpuState, RuntimeKind, SharingMode

MODES = [(mode.value, mode.value) for mode in SharingMode]


class Pool(models.Model):
    """Nodes that are run alike: one policy, one sharing mode, one time zone."""

    name = models.SlugField(max_length=60, unique=True)
    sharing_mode = models.CharField(max_length=10, choices=MODES, default=SharingMode.OBSERVE)
    policy = models.ForeignKey("policies.Policy", models.PROTECT, null=True, blank=True)
    time_zone = models.CharField(max_length=60, default="UTC")
    holdback_percent = models.PositiveSmallIntegerField(default=3)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """One machine. Freshness is live state (Redis, the agent's connection); here is what lasts."""

    class State(models.TextChoices):
        ENROLLED = "ENROLLED"
        CONNECTED = "CONNECTED"
        STALE = "STALE"
        LOST = "LOST"

    class Source(models.TextChoices):
        AGENT = "agent"
        IMPORTED = "imported"

    name = models.CharField(max_length=128, unique=True)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="nodes")
    labels = models.JSONField(default=dict, blank=True)
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.AGENT)
    runtime = models.CharField(
        max_length=12,
        choices=[(kind.value, kind.value) for kind in RuntimeKind],
        default=RuntimeKind.SIMULATED,
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.ENROLLED)
    state_since = models.DateTimeField()
    cordoned = models.BooleanField(default=False)
    draining = models.BooleanField(default=False)
    # No offline job is placed on any of its GPUs, whatever its sharing mode.
    never_share = models.BooleanField(default=False)
    # What the machine has beside its GPUs; None: nobody told.
    cpu_cores = models.FloatField(null=True, blank=True)
    host_memory_bytes = models.BigIntegerField(null=True, blank=True)

    token_sha256 = models.CharField(max_length=64, blank=True, db_index=True)
    agent_version = models.CharField(max_length=40, blank=True)
    capabilities = models.JSONField(default=list, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    acked_event_seq = models.BigIntegerField(default=0)

    # Desired and observed generation; equal means that the node does what we want.
    generation = models.BigIntegerField(default=1)
    generation_at = models.DateTimeField(null=True, blank=True)
    observed_generation = models.BigIntegerField(default=0)
    observed_at = models.DateTimeField(null=True, blank=True)
    observed_policies = models.JSONField(default=dict, blank=True)
    refused = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    """One GPU. Its id is small, never reused, and the cell key everywhere."""

    id = models.AutoField(primary_key=True)
    node = models.ForeignKey(Node, models.PROTECT, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=80, db_index=True)
    model = models.CharField(max_length=80)
    memory_bytes = models.BigIntegerField()
    # The size comes from a table of models, or is a guess; no node has told it.
    memory_assumed = models.BooleanField(default=False)
    driver = models.CharField(max_length=40, blank=True)
    sm_clock_max_mhz = models.FloatField(null=True, blank=True)
    power_limit_w = models.FloatField(null=True, blank=True)
    pcie_max_bytes_s = models.FloatField(null=True, blank=True)
    source = models.CharField(max_length=20, default="simulated")

    sharing_mode = models.CharField(max_length=10, choices=MODES, default=SharingMode.OBSERVE)
    holdback = models.BooleanField(default=False)
    never_share = models.BooleanField(default=False)
    # Beside those of its node; the GPU's own value counts where both have the key.
    labels = models.JSONField(default=dict, blank=True)
    unshareable_fact = models.CharField(max_length=200, blank=True)
    conflict = models.BooleanField(default=False)
    retired_at = models.DateTimeField(null=True, blank=True)

    state = models.CharField(
        max_length=12,
        choices=[(state.value, state.value) for state in GpuState],
        default=GpuState.INIT,
    )
    state_since = models.DateTimeField()
    state_why = models.CharField(max_length=300, blank=True)
    # The last that its node gave it; None: not told.
    cooldown_s = models.FloatField(null=True, blank=True)
    degraded = models.JSONField(default=list, blank=True)
    disabled = models.BooleanField(default=False)
    disabled_reason = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["node__name", "index"]
        constraints = [
            models.UniqueConstraint(
                fields=["node", "index"], condition=Q(retired_at=None), name="one_gpu_per_slot"
            )
        ]

    def __str__(self) -> str:
        return f"{self.node} / GPU {self.index}"

    @property
    def is_simulated(self) -> bool:
        return self.source == "simulated"

    @property
    def label_words(self) -> frozenset[str]:
        """`key=value`, its own and those of its node."""
        return frozenset(
            f"{key}={value}" for key, value in (self.node.labels | self.labels).items()
        )


class SharingChange(models.Model):
    """Who changed a sharing mode, when, and what the fleet looked like just before."""

    at = models.DateTimeField(db_index=True)
    pool = models.ForeignKey(Pool, models.CASCADE, null=True, blank=True)
    gpu = models.ForeignKey(Gpu, models.CASCADE, null=True, blank=True)
    before = models.CharField(max_length=10, choices=MODES)
    after = models.CharField(max_length=10, choices=MODES)
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    baseline = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return f"{self.pool or self.gpu}: {self.before} to {self.after}"


class EnrolmentToken(models.Model):
    """Lets one node (or `uses_left` nodes) join a pool; only its SHA-256 is kept."""

    sha256 = models.CharField(max_length=64, unique=True)
    pool = models.ForeignKey(Pool, models.CASCADE)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    used_by = models.ForeignKey(Node, models.SET_NULL, null=True, blank=True)

    def __str__(self) -> str:
        return f"token for {self.pool}, {'used' if self.used_at else 'unused'}"
