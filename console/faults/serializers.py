"""What the REST API says of a fault."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.faults.models import Fault
from console.faults.story import Side, State


class ProcessSerializer(serializers.Serializer[Any]):
    """`name` is a job's or a service's, "" when nobody knows."""

    pid = serializers.IntegerField(allow_null=True)
    side = serializers.ChoiceField(choices=[(side.value, side.value) for side in Side])
    name = serializers.CharField(allow_blank=True)
    placement_id = serializers.UUIDField(allow_null=True)


class MomentSerializer(serializers.Serializer[Any]):
    after_s = serializers.FloatField()
    what = serializers.CharField()


class GpuFaultSerializer(serializers.ModelSerializer[Fault]):
    """`first` is null when nobody knows who faulted first; `recovered_s` counts until every online
    process was a healthy client again."""

    node = serializers.CharField(source="gpu.node.name", read_only=True)
    pool = serializers.CharField(source="gpu.node.pool.name", read_only=True)
    gpu_index = serializers.IntegerField(source="gpu.index", read_only=True)
    state = serializers.ChoiceField(
        choices=[(state.value, state.value) for state in State], read_only=True
    )
    first = ProcessSerializer(allow_null=True, read_only=True)
    others = ProcessSerializer(many=True, read_only=True)
    moments = MomentSerializer(many=True, read_only=True)

    class Meta:
        model = Fault
        fields = (
            "id", "gpu", "node", "pool", "gpu_index", "state", "seen_at", "told_at", "ended_at",
            "recovered_s", "why", "code", "first", "first_by", "others", "moments", "placement",
            "job", "service", "jobs_hit", "services_hit",
        )  # fmt: skip
        read_only_fields = ("jobs_hit", "services_hit")
