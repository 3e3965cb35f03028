"""What the REST API says of runs."""

from __future__ import annotations

from rest_framework import serializers

from console.runs.models import Run


class RunSerializer(serializers.ModelSerializer[Run]):
    """`result` holds what came of it, by kind; an import tells rows written and skipped."""

    started_by = serializers.CharField(read_only=True, allow_null=True)
    result = serializers.DictField(read_only=True)

    class Meta:
        model = Run
        fields = (
            "id", "kind", "state", "progress", "message", "result", "started_by", "created_at",
            "started_at", "finished_at", "cancel_wanted",
        )  # fmt: skip
