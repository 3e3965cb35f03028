"""Services, jobs and teams over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Prefetch, QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from console.accounts import access
from console.accounts.models import Role
from console.api import IsViewer, caller
from console.audit.services import person
from console.inventory import never_share
from console.rest import PoolScoped, ReasonSerializer, reason_of
from console.workloads import caps, holds, serializers, services
from console.workloads.filters import InstanceFilter, JobFilter, ServiceFilter
from console.workloads.models import (
    OfflineJob,
    OnlineInstance,
    OnlineService,
    ServiceProfile,
    Team,
)
from console.workloads.queries import jobs_in_sight


class TeamViewSet(
    mixins.ListModelMixin, mixins.RetrieveModelMixin, mixins.CreateModelMixin, GenericViewSet[Team]
):
    queryset = Team.objects.all()
    serializer_class = serializers.TeamSerializer
    permission_classes = (IsViewer,)

    def perform_create(self, serializer: BaseSerializer[Team]) -> None:
        name = serializer.validated_data["name"]
        serializer.instance = services.add_team(name, caller(self.request), timezone.now())

    @extend_schema(request=serializers.CapSerializer, responses=serializers.TeamSerializer)
    @action(detail=True, methods=["post"])
    def cap(self, request: Request, pk: str) -> Response:
        """Say how many of its jobs may run at once; what runs already goes on."""
        told = serializers.CapSerializer(data=request.data)
        told.is_valid(raise_exception=True)
        team = self.get_object()
        caps.set_cap(team, told.validated_data["max_running"], caller(request), timezone.now())
        return Response(serializers.TeamSerializer(team).data)


class ServiceViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[OnlineService]):
    queryset = (
        OnlineService.objects.select_related("team", "pool")
        .prefetch_related(Prefetch("profiles", ServiceProfile.objects.defer("counts")))
        .annotate(instance_count=Count("instances"))
        .order_by("name")
    )
    serializer_class = serializers.ServiceSerializer
    filterset_class = ServiceFilter

    @extend_schema(request=ReasonSerializer, responses=serializers.ServiceSerializer)
    @action(detail=True, methods=["post"])
    def forbid_sharing(self, request: Request, pk: str) -> Response:
        """Place nothing beside its instances, whatever the mode; what runs goes on."""
        return self._mark(request, never_share.forbid)

    @extend_schema(request=ReasonSerializer, responses=serializers.ServiceSerializer)
    @action(detail=True, methods=["post"])
    def allow_sharing(self, request: Request, pk: str) -> Response:
        """The modes decide again."""
        return self._mark(request, never_share.allow)

    def _mark(self, request: Request, change: Any) -> Response:
        service, user = self.get_object(), caller(request)
        access.require(user, Role.OPERATOR, service.pool)
        change(service, person(user), reason_of(request), timezone.now())
        return Response(self.get_serializer(self.get_object()).data)


class InstanceViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[OnlineInstance]):
    queryset = OnlineInstance.objects.select_related("service", "gpu__node").order_by("pk")
    serializer_class = serializers.InstanceSerializer
    filterset_class = InstanceFilter
    pool_path = "service__pool"


class JobViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[OfflineJob]):
    queryset = OfflineJob.objects.select_related("team", "owner").order_by("-submitted_at", "pk")
    serializer_class = serializers.JobSerializer
    permission_classes = (IsViewer,)
    filterset_class = JobFilter

    def get_queryset(self) -> QuerySet[OfflineJob]:
        jobs = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return jobs.none()
        return jobs_in_sight(jobs, caller(self.request))

    @extend_schema(
        request=serializers.SubmissionSerializer, responses={201: serializers.JobSerializer}
    )
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Queue a job."""
        body = serializers.SubmissionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        job = services.submit(body.submission(), caller(request), timezone.now())
        return Response(self.get_serializer(job).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=serializers.JobSerializer)
    @action(detail=True, methods=["post"])
    def lift_hold(self, request: Request, pk: str) -> Response:
        """Let rounds place a job again that is held for its faults. 409 when it is not held."""
        job = self.get_object()
        holds.lift(job, caller(request), reason_of(request), timezone.now())
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=ReasonSerializer, responses=serializers.CancelledSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """At once while it waits, else through the ordinary stop."""
        user = caller(request)
        eviction = services.cancel(self.get_object(), user, reason_of(request), timezone.now())
        answer = {"job": self.get_object(), "eviction": eviction and eviction.pk}
        return Response(serializers.CancelledSerializer(answer).data)
