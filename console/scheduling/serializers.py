"""What the REST API says of rounds, their decisions and placements."""

from __future__ import annotations

from rest_framework import serializers

from console.scheduling import queries
from console.scheduling.models import Decision, Placement, Round


class RoundSerializer(serializers.ModelSerializer[Round]):
    took_s = serializers.SerializerMethodField()
    proven_optimal = serializers.SerializerMethodField()

    class Meta:
        model = Round
        fields = (
            "id", "kind", "state", "trigger", "started_at", "finished_at", "took_s", "gpus", "jobs",
            "pairs", "placed", "kept", "moves", "waiting", "predicted_gpus", "objective",
            "upper_bound", "previous_objective", "proven_optimal", "inputs", "seconds", "error",
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
            "predicted_throughput", "predicted_online_slowdown", "sm_share_percent",
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
            "effective_sm_share_percent", "pending_sm_share_percent", "duty_percent",
            "effective_duty_percent", "memory_quota_bytes", "effective_memory_quota_bytes",
            "memory_bytes", "predicted_throughput", "observed_throughput", "progress",
            "resume_work_s", "work_done_s", "unsaved_work_s", "lost_work_s", "observed_at",
            "xcuda_processes", "cuda_processes", "remarks",
        )  # fmt: skip
