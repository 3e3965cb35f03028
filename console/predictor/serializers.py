"""What the REST API says of predictors."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from console.lists import LARGEST_ID
from console.predictor import exchange
from console.predictor.models import PredictorVersion


class PredictorVersionSerializer(serializers.ModelSerializer[PredictorVersion]):
    """`report` holds the errors on the hold-out; docs/prediction.md names its parts."""

    report = serializers.DictField(read_only=True)
    replaced = serializers.IntegerField(source="replaced.number", read_only=True, allow_null=True)

    class Meta:
        model = PredictorVersion
        fields = (
            "number", "state", "state_since", "simulated", "made_at", "run", "replaced",
            "sha256", "report", "changed_by", "why",
        )  # fmt: skip


class ChangeSerializer(serializers.Serializer[Any]):
    """`seen`: the version that the caller saw in force, null for the analytic estimate."""

    seen = serializers.IntegerField(min_value=1, max_value=LARGEST_ID, allow_null=True)
    reason = serializers.CharField(max_length=1_000)


class InForceSerializer(serializers.Serializer[Any]):
    """`version` null: the analytic estimate predicts."""

    version = serializers.IntegerField(read_only=True, allow_null=True)
    automatic = serializers.BooleanField(read_only=True)


class ObservationsSerializer(serializers.Serializer[Any]):
    """A CSV file as a text; docs/prediction.md has its columns."""

    csv = serializers.CharField(max_length=exchange.MOST_CHARS, trim_whitespace=False)


class ImportedSerializer(serializers.Serializer[Any]):
    observations = serializers.IntegerField(read_only=True)
