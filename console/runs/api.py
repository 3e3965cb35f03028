"""Runs over REST: how far a long piece of work is, and its end."""

from __future__ import annotations

import django_filters as filters
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.accounts import access
from console.accounts.models import Role
from console.api import IsViewer, caller
from console.lists import Filter
from console.runs import services
from console.runs.models import Run
from console.runs.serializers import RunSerializer


class RunFilter(Filter):
    kind = filters.CharFilter()
    state = filters.ChoiceFilter(choices=Run.State.choices)

    class Meta:
        model = Run
        fields = ("kind", "state")


class RunViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[Run]):
    queryset = Run.objects.select_related("started_by").defer("arguments").order_by("-created_at")
    serializer_class = RunSerializer
    permission_classes = (IsViewer,)
    filterset_class = RunFilter

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Ask it to stop. Whoever started it may, and an admin."""
        run, user = self.get_object(), caller(request)
        if run.started_by != user:
            access.require(user, Role.ADMIN)
        services.cancel(run, user, timezone.now())
        return Response(self.get_serializer(self.get_object()).data)
