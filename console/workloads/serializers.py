"""What the REST API says of services, jobs and teams."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from agents.wire.limits import MAX_GPUS_PER_NODE, MAX_NAME_CHARS
from agents.wire.names import Checkpoint
from console.workloads import caps
from console.workloads.models import (
    OfflineJob,
    OnlineInstance,
    OnlineService,
    ServiceProfile,
    Team,
)
from console.workloads.services import (
    LARGEST_MEMORY_BYTES,
    LONGEST_IMAGE,
    LONGEST_WORK_S,
    MOST_CPU_CORES,
    MOST_LABELS,
    Submission,
)

NAMED: Any = {"slug_field": "name", "read_only": True}
PROFILE = (
    "sm_percent", "gpu_util_percent", "memory_bytes", "memory_bandwidth_percent",
    "occupancy_percent",
)  # fmt: skip
PROVENANCE = (
    "profile_source", "profile_why", "profile_measured_at", "profile_gpu_model", "step_s",
    "proven_at",
)  # fmt: skip
NEEDS = ("image", "gpus", "cpu_cores", "host_memory_bytes", "labels")


class TeamSerializer(serializers.ModelSerializer[Team]):
    class Meta:
        model = Team
        fields = ("id", "name", "max_running")
        read_only_fields = ("max_running",)


class CapSerializer(serializers.Serializer[Any]):
    """How many of a team's jobs may hold a GPU at once; null: as many as find one."""

    max_running = serializers.IntegerField(min_value=0, max_value=caps.MOST, allow_null=True)


class ServiceProfileSerializer(serializers.ModelSerializer[ServiceProfile]):
    """What one instance was measured to use on one GPU model: the 95th percentile."""

    class Meta:
        model = ServiceProfile
        fields = ("gpu_model", *PROFILE, "p99_ms", "qps", "samples", "since", "measured_at")


class ServiceSerializer(serializers.ModelSerializer[OnlineService]):
    team = serializers.SlugRelatedField[Team](**NAMED)
    pool = serializers.SlugRelatedField[Any](**NAMED)
    instances = serializers.IntegerField(source="instance_count", read_only=True)
    profiles = ServiceProfileSerializer(many=True, read_only=True)

    class Meta:
        model = OnlineService
        fields = (
            "id", "name", "team", "pool", "tier", "slo_p99_ms", "base_p99_ms", "peak_qps",
            *PROFILE, "never_share", "instances", "profiles",
        )  # fmt: skip


class InstanceSerializer(serializers.ModelSerializer[OnlineInstance]):
    service = serializers.SlugRelatedField[OnlineService](**NAMED)
    node = serializers.CharField(source="gpu.node.name", read_only=True)
    gpu_index = serializers.IntegerField(source="gpu.index", read_only=True)

    class Meta:
        model = OnlineInstance
        fields = ("id", "service", "gpu", "node", "gpu_index", "gpu_percent")


class JobSerializer(serializers.ModelSerializer[OfflineJob]):
    team = serializers.SlugRelatedField[Team](**NAMED)
    owner = serializers.SlugRelatedField[Any](
        slug_field="username", read_only=True, allow_null=True
    )
    gpu_models = serializers.ListField(child=serializers.CharField(), read_only=True)
    pools = serializers.ListField(child=serializers.CharField(), read_only=True)
    command = serializers.ListField(child=serializers.CharField(), read_only=True)
    labels = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = OfflineJob
        fields = (
            "id", "name", "team", "owner", "source", "state", "state_since", "priority",
            "submitted_at", "finished_at", "wait_reason", *PROFILE, *PROVENANCE, *NEEDS,
            "gpu_models", "pools", "command", "checkpoint", "checkpoint_period_s", "work_s",
            "saved_work_s", "attempts", "evictions", "failures", "max_retries", "faults",
            "last_fault_at", "held_until",
        )  # fmt: skip


class Words(serializers.ListField):
    child = serializers.CharField(max_length=4_096)


class SubmissionSerializer(serializers.Serializer[Any]):
    """A job to queue. Percent of one whole GPU; empty `pools` and `gpu_models`: any.

    Without `sm_percent` and `gpu_util_percent` its profile is measured first, on a free GPU, or is
    that of a job with the same image, command and owner. `labels` are `key=value`.
    """

    name = serializers.CharField(max_length=MAX_NAME_CHARS)
    team = serializers.SlugRelatedField[Team](slug_field="name", queryset=Team.objects.all())
    work_s = serializers.FloatField(min_value=1.0, max_value=LONGEST_WORK_S)
    sm_percent = serializers.FloatField(min_value=0, max_value=100, allow_null=True, default=None)
    gpu_util_percent = serializers.FloatField(
        min_value=0, max_value=100, allow_null=True, default=None
    )
    memory_bytes = serializers.IntegerField(
        min_value=1, max_value=LARGEST_MEMORY_BYTES, allow_null=True, default=None
    )
    memory_bandwidth_percent = serializers.FloatField(min_value=0, max_value=100, default=0.0)
    priority = serializers.IntegerField(min_value=-1_000, max_value=1_000, default=0)
    checkpoint = serializers.ChoiceField(
        choices=[(kind.value, kind.value) for kind in Checkpoint], default=Checkpoint.ON_SIGTERM
    )
    checkpoint_period_s = serializers.FloatField(min_value=1.0, max_value=1e7, default=600.0)
    pools = Words(max_length=64, default=list)
    gpu_models = Words(max_length=64, default=list)
    command = Words(max_length=64, default=list)
    max_retries = serializers.IntegerField(min_value=0, max_value=100, default=3)
    image = serializers.CharField(max_length=LONGEST_IMAGE, allow_blank=True, default="")
    gpus = serializers.IntegerField(min_value=1, max_value=MAX_GPUS_PER_NODE, default=1)
    cpu_cores = serializers.FloatField(
        min_value=0, max_value=MOST_CPU_CORES, allow_null=True, default=None
    )
    host_memory_bytes = serializers.IntegerField(
        min_value=1, max_value=LARGEST_MEMORY_BYTES, allow_null=True, default=None
    )
    labels = Words(max_length=MOST_LABELS, default=list)

    def submission(self) -> Submission:
        """What was sent, once it is valid."""
        values = dict(self.validated_data)
        return Submission(**values | {"checkpoint": Checkpoint(values["checkpoint"])})


class CancelledSerializer(serializers.Serializer[Any]):
    """`eviction` is the stop that is under way, or null when the job was only waiting."""

    job = JobSerializer()
    eviction = serializers.UUIDField(allow_null=True)
