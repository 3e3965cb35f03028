"""What the REST API says of rounds, their decisions and placements."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.wire.names import Origin
from console.api import in_sight
from console.evictions import queries as eviction_queries
from console.evictions.models import Eviction
from console.evictions.serializers import EvictionSerializer
from console.scheduling import queries
from console.scheduling.models import AvoidEntry, Decision, MovePlan, Placement, Round


class RoundSerializer(serializers.ModelSerializer[Round]):
    took_s = serializers.SerializerMethodField()
    proven_optimal = serializers.SerializerMethodField()

    class Meta:
        model = Round
        fields = (
            "id", "kind", "state", "trigger", "started_at", "finished_at", "took_s", "gpus", "jobs",
            "pairs", "placed", "kept", "moves", "waiting", "predicted_gpus", "objective",
            "upper_bound", "previous_objective", "proven_optimal", "certified_s", "predictor",
            "warm", "late", "snapshot_id", "inputs", "seconds", "error", "skipped_why",
        )  # fmt: skip

    def get_took_s(self, round: Round) -> float | None:
        return queries.took_s(round)

    def get_proven_optimal(self, round: Round) -> bool:
        return queries.is_optimal(round)


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    job_name = serializers.CharField(source="job.name", read_only=True, allow_null=True)
    gpu_name = serializers.CharField(source="gpu.__str__", read_only=True, allow_null=True)

    class Meta:
        model = Decision
        fields = (
            "id", "kind", "code", "why", "job", "job_name", "gpu", "gpu_name", "from_gpu", "weight",
            "predicted_throughput", "throughput_low", "throughput_high",
            "predicted_online_slowdown", "slowdown_low", "slowdown_high", "sm_share_percent",
            "price", "runner_up", "runner_up_loss", "flags",
        )  # fmt: skip


class PlanSerializer(serializers.ModelSerializer[MovePlan]):
    """The moves of a round as one; each move is an eviction of origin `move`."""

    decided_by = serializers.SlugRelatedField[Any](
        slug_field="username", read_only=True, allow_null=True
    )
    moves = serializers.SerializerMethodField()

    class Meta:
        model = MovePlan
        fields = (
            "round", "state", "state_since", "proposed_at", "deadline_at", "default",
            "decided_by", "reason", "struck", "moves",
        )  # fmt: skip

    @extend_schema_field(EvictionSerializer(many=True))
    def get_moves(self, plan: MovePlan) -> Any:
        rows = Eviction.objects.filter(round=plan.pk, origin=Origin.MOVE).order_by("pk")
        seen = in_sight(rows, self.context["user"], "gpu__node__pool")
        found = seen.select_related(*eviction_queries.WITH_ALL).prefetch_related("phases")
        return EvictionSerializer(found, many=True).data


class PlanDecisionSerializer(serializers.Serializer[Any]):
    """`strike`: ids of moves to leave out; what is chained to one of them stays as well."""

    reason = serializers.CharField(max_length=1_000, allow_blank=True, default="")
    strike = serializers.ListField(child=serializers.UUIDField(), default=list, max_length=10_000)


class AvoidSerializer(serializers.ModelSerializer[AvoidEntry]):
    job_name = serializers.CharField(source="job.name", read_only=True)
    gpu_name = serializers.CharField(source="gpu.__str__", read_only=True)

    class Meta:
        model = AvoidEntry
        fields = (
            "id", "job", "job_name", "gpu", "gpu_name", "origin", "why", "created_at", "expires_at",
        )  # fmt: skip


class PlacementSerializer(serializers.ModelSerializer[Placement]):
    job_name = serializers.CharField(source="job.name", read_only=True)
    gpu_name = serializers.CharField(source="gpu.__str__", read_only=True)
    remarks = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Placement
        fields = (
            "id", "job", "job_name", "gpu", "gpu_name", "round", "state", "state_since",
            "created_at", "started_at", "ended_at", "end_reason", "sm_share_percent",
            "effective_sm_share_percent", "pending_sm_share_percent", "pending_why", "duty_percent",
            "effective_duty_percent", "memory_quota_bytes", "effective_memory_quota_bytes",
            "memory_bytes", "predicted_throughput", "observed_throughput", "progress",
            "resume_work_s", "work_done_s", "unsaved_work_s", "lost_work_s", "observed_at",
            "xcuda_processes", "cuda_processes", "remarks",
        )  # fmt: skip
