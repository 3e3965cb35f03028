"""What the REST API says of the inventory."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from agents.wire.limits import MAX_GPUS_PER_NODE, MAX_NAME_CHARS
from agents.wire.names import SharingMode
from console.inventory import sharing
from console.inventory.models import EnrolmentToken, Gpu, Node, Pool, SharingChange

MODES = [(mode.value, mode.value) for mode in SharingMode]
NAMED: Any = {"slug_field": "name", "read_only": True}


class PoolSerializer(serializers.ModelSerializer[Pool]):
    policy = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)
    nodes = serializers.IntegerField(source="node_count", read_only=True)
    gpus = serializers.IntegerField(source="gpu_count", read_only=True)

    class Meta:
        model = Pool
        fields = (
            "id", "name", "sharing_mode", "policy", "time_zone", "holdback_percent", "nodes",
            "gpus",
        )  # fmt: skip


class NodeSerializer(serializers.ModelSerializer[Node]):
    pool = serializers.SlugRelatedField[Pool](**NAMED)
    labels = serializers.DictField(child=serializers.CharField(), read_only=True)
    capabilities = serializers.ListField(child=serializers.CharField(), read_only=True)
    observed_policies = serializers.DictField(child=serializers.IntegerField(), read_only=True)

    class Meta:
        model = Node
        fields = (
            "id", "name", "pool", "labels", "source", "runtime", "state", "state_since",
            "cordoned", "draining", "never_share", "cpu_cores", "host_memory_bytes",
            "agent_version", "capabilities", "last_seen_at", "generation",
            "generation_at", "observed_generation", "observed_at", "observed_policies", "refused",
        )  # fmt: skip


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    node = serializers.SlugRelatedField[Node](**NAMED)
    pool = serializers.SlugRelatedField[Pool](source="node.pool", **NAMED)
    effective_mode = serializers.SerializerMethodField()
    forbidding_fact = serializers.SerializerMethodField()
    degraded = serializers.ListField(child=serializers.CharField(), read_only=True)
    labels = serializers.DictField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Gpu
        fields = (
            "id", "node", "pool", "index", "uuid", "model", "memory_bytes", "memory_assumed",
            "driver", "pcie_max_bytes_s", "source", "sharing_mode", "effective_mode",
            "forbidding_fact", "holdback", "never_share", "labels", "conflict", "retired_at",
            "state", "state_since", "state_why", "degraded", "disabled", "disabled_reason",
        )  # fmt: skip

    def get_effective_mode(self, gpu: Gpu) -> str:
        return sharing.effective_mode(gpu)

    def get_forbidding_fact(self, gpu: Gpu) -> str:
        return sharing.forbidding_fact(gpu)


class SharingChangeSerializer(serializers.ModelSerializer[SharingChange]):
    pool = serializers.SlugRelatedField[Pool](allow_null=True, **NAMED)
    gpu = serializers.PrimaryKeyRelatedField[Gpu](read_only=True, allow_null=True)
    baseline = serializers.DictField(read_only=True)

    class Meta:
        model = SharingChange
        fields = ("id", "at", "pool", "gpu", "before", "after", "actor", "reason", "baseline")


class ModeSerializer(serializers.Serializer[Any]):
    """A change of one mode."""

    mode = serializers.ChoiceField(choices=MODES)
    reason = serializers.CharField(max_length=1_000, allow_blank=True, default="")


class StartPreviewSerializer(serializers.Serializer[Any]):
    """What starting would do: GPUs that would share, that share, and that a fact forbids."""

    starting = serializers.ListField(child=serializers.IntegerField())
    sharing = serializers.ListField(child=serializers.IntegerField())
    forbidden = serializers.DictField(child=serializers.IntegerField())


class StopPreviewSerializer(serializers.Serializer[Any]):
    """What stopping would do: how many GPUs take no more work, which placements end."""

    sharing = serializers.IntegerField()
    placements = serializers.ListField(child=serializers.UUIDField())
    unsaved_work_s = serializers.FloatField()


class DrainStepSerializer(serializers.Serializer[Any]):
    placement = serializers.UUIDField()
    job = serializers.CharField()
    outlook = serializers.ChoiceField(choices=["evict", "skip", "may block"])
    why = serializers.CharField()


class EnrolmentTokenSerializer(serializers.ModelSerializer[EnrolmentToken]):
    """`secret` is in the answer that makes the token, and never again."""

    pool = serializers.SlugRelatedField[Pool](slug_field="name", queryset=Pool.objects.all())
    created_by = serializers.CharField(read_only=True, allow_null=True)
    used_by = serializers.SlugRelatedField[Node](allow_null=True, **NAMED)
    secret = serializers.SerializerMethodField()

    class Meta:
        model = EnrolmentToken
        fields = (
            "id", "pool", "created_by", "created_at", "expires_at", "used_at", "used_by", "secret",
        )  # fmt: skip
        read_only_fields = ("created_at", "expires_at", "used_at")

    def get_secret(self, token: EnrolmentToken) -> str | None:
        return self.context.get("secret")


class ClaimSerializer(serializers.Serializer[Any]):
    """One GPU of a machine that enrols."""

    index = serializers.IntegerField(min_value=0, max_value=MAX_GPUS_PER_NODE - 1)
    uuid = serializers.CharField(max_length=80)
    model = serializers.CharField(max_length=80)
    memory_bytes = serializers.IntegerField(min_value=1, max_value=1 << 42)


class EnrolSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=200)
    node = serializers.CharField(max_length=MAX_NAME_CHARS)
    gpus = serializers.ListField(child=ClaimSerializer(), max_length=MAX_GPUS_PER_NODE)


class CredentialsSerializer(serializers.Serializer[Any]):
    """Secret, and shown once: `agents.wire.credentials.Credentials`."""

    node = serializers.CharField()
    node_id = serializers.CharField()
    token = serializers.CharField()
    key_hex = serializers.CharField()


class ImportSerializer(serializers.Serializer[Any]):
    """A cluster file as text; docs/import.md describes it."""

    document = serializers.CharField(max_length=16 << 20, trim_whitespace=False)
    file_name = serializers.CharField(max_length=100, default="cluster.yaml")
