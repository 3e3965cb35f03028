"""Bases of the REST views. Apart from console/api.py, which the framework loads first."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from console.api import IsViewer, caller, in_sight

M = TypeVar("M", bound=Model)


class PoolScoped(GenericViewSet[M]):
    """Shows only rows of the pools that the caller may see; any other row is not found.

    `pool_path` leads from the row to its pool, "" when the row is a pool.
    """

    permission_classes = (IsViewer,)
    pool_path: ClassVar[str] = "pool"

    def get_queryset(self) -> QuerySet[M]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        return in_sight(rows, caller(self.request), self.pool_path)


class ReasonSerializer(serializers.Serializer[Any]):
    """What a change is asked with."""

    reason = serializers.CharField(max_length=1_000, allow_blank=True, default="")


def reason_of(request: Request) -> str:
    """The reason in the body. Raises ValidationError."""
    body = ReasonSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return str(body.validated_data["reason"])
