"""The audit over REST: read only, and the check of its chain."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.api import IsViewer
from console.audit import services
from console.audit.filters import EntryFilter
from console.audit.models import Entry


class EntrySerializer(serializers.ModelSerializer[Entry]):
    user = serializers.SlugRelatedField[Any](slug_field="username", read_only=True, allow_null=True)
    details = serializers.DictField(source="data", read_only=True)

    class Meta:
        model = Entry
        fields = (
            "id", "at", "actor", "user", "action", "object_type", "object_id", "object_name",
            "reason", "cause_id", "details", "sealed_number", "previous_hash", "hash",
        )  # fmt: skip


class FaultSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    what = serializers.CharField()


class VerdictSerializer(serializers.Serializer[Any]):
    sealed = serializers.IntegerField()
    waiting = serializers.IntegerField()
    faults = FaultSerializer(many=True)


class EntryViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[Entry]):
    queryset = Entry.objects.select_related("user").order_by("-pk")
    serializer_class = EntrySerializer
    permission_classes = (IsViewer,)
    filterset_class = EntryFilter

    @extend_schema(request=None, responses=VerdictSerializer, filters=False)
    @action(detail=False, methods=["post"])
    def verify(self, request: Request) -> Response:
        """Compute every hash again. `faults` names the first places that were tampered with."""
        return Response(VerdictSerializer(services.verify()).data)
