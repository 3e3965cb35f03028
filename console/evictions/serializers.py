"""What the REST API says of an eviction."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.evictions.models import Eviction, EvictionPhase


class PhaseSerializer(serializers.ModelSerializer[EvictionPhase]):
    class Meta:
        model = EvictionPhase
        fields = ("phase", "at")


class EvictionSerializer(serializers.ModelSerializer[Eviction]):
    job = serializers.SlugRelatedField[Any](
        source="placement.job", slug_field="name", read_only=True
    )
    job_id = serializers.UUIDField(source="placement.job_id", read_only=True)
    node = serializers.SlugRelatedField[Any](source="gpu.node", slug_field="name", read_only=True)
    pool = serializers.SlugRelatedField[Any](
        source="gpu.node.pool", slug_field="name", read_only=True
    )
    decided_by = serializers.SlugRelatedField[Any](
        slug_field="username", read_only=True, allow_null=True
    )
    reviewed_by = serializers.SlugRelatedField[Any](
        slug_field="username", read_only=True, allow_null=True
    )
    phases = PhaseSerializer(many=True, read_only=True)
    evidence = serializers.DictField(read_only=True)

    class Meta:
        model = Eviction
        fields = (
            "id", "placement", "job", "job_id", "gpu", "node", "pool", "to_gpu", "origin",
            "state", "state_since", "phase", "phases", "proposed_at", "deadline_at", "default",
            "dispatch_at", "ended_at", "finished_first", "why", "evidence", "grace_s",
            "expected_lost_work_s", "lost_work_s", "freed_bytes", "reaction_ms", "decided_by",
            "decided_at", "reason", "review", "reviewed_by", "reviewed_at", "cause_id", "round",
            "by_node", "cancels",
        )  # fmt: skip
