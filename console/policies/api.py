"""Policies over REST: their versions, the next version, and who has applied it."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.api import IsViewer, caller
from console.policies import fleet, rules, services
from console.policies.models import Policy
from console.policies.serializers import (
    AppliedSerializer,
    NewVersionSerializer,
    PolicySerializer,
    VersionSerializer,
)


class PolicyViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[Policy]):
    queryset = Policy.objects.select_related("current__author", "current__policy").prefetch_related(
        "pool_set"
    )
    serializer_class = PolicySerializer
    permission_classes = (IsViewer,)
    lookup_field = "slug"

    @extend_schema(responses=VersionSerializer(many=True))
    @action(detail=True)
    def versions(self, request: Request, slug: str) -> Response:
        """All versions, newest first."""
        found = self.get_object().versions.select_related("policy", "author")
        return Response(VersionSerializer(found, many=True).data)

    @extend_schema(request=NewVersionSerializer, responses={201: VersionSerializer})
    @versions.mapping.post
    def save_version(self, request: Request, slug: str) -> Response:
        """Put the next version in force."""
        policy, asked = self.get_object(), NewVersionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        values = asked.validated_data
        services.require_author(caller(request), policy)
        services.require_seen(policy, values["based_on"])
        version = services.save_version(
            policy, rules.parse(values["body"]), caller(request), values["reason"], timezone.now()
        )
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=AppliedSerializer)
    @action(detail=True)
    def applied(self, request: Request, slug: str) -> Response:
        """How many nodes report the version in force."""
        return Response(AppliedSerializer(fleet.applied(self.get_object())).data)
