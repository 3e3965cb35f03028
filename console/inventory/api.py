"""The inventory over REST: pools with their sharing mode, nodes, GPUs, enrolment, imports."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import (
    action,
    api_view,
    authentication_classes,
    permission_classes,
    throttle_classes,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import AnonRateThrottle

from agents.wire.messages import GpuInventory
from agents.wire.names import SharingMode
from console.accounts import access
from console.accounts.models import Role
from console.accounts.tokens import digest
from console.api import IsViewer, caller
from console.audit.services import person
from console.inventory import (
    draining,
    emptying,
    enrolment,
    import_runs,
    never_share,
    nodes,
    serializers,
    sharing,
)
from console.inventory.filters import GpuFilter, NodeFilter, SharingChangeFilter
from console.inventory.models import EnrolmentToken, Gpu, Node, Pool, SharingChange
from console.rest import PoolScoped, ReasonSerializer, reason_of
from console.runs.serializers import RunSerializer


class PoolViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Pool]):
    queryset = (
        Pool.objects.select_related("policy")
        .annotate(
            node_count=Count("nodes", distinct=True),
            gpu_count=Count("nodes__gpus", filter=Q(nodes__gpus__retired_at=None), distinct=True),
        )
        .order_by("name")
    )
    serializer_class = serializers.PoolSerializer
    lookup_field = "name"
    pool_path = ""

    @extend_schema(responses=serializers.StartPreviewSerializer)
    @action(detail=True)
    def preview_start(self, request: Request, name: str) -> Response:
        """What starting to share would do; changes nothing."""
        (plan,) = sharing.preview_start([self.get_object()])
        return Response(
            {
                "starting": [gpu.pk for gpu in plan.starting],
                "sharing": [gpu.pk for gpu in plan.sharing],
                "forbidden": {f.fact: len(f.gpus) for f in plan.forbidden},
            }
        )

    @extend_schema(responses=serializers.StopPreviewSerializer)
    @action(detail=True)
    def preview_stop(self, request: Request, name: str) -> Response:
        """What stopping would do; changes nothing."""
        (plan,) = sharing.preview_stop([self.get_object()])
        return Response(
            {
                "sharing": plan.sharing,
                "placements": [placement.pk for placement in plan.placements],
                "unsaved_work_s": plan.unsaved_work_s,
            }
        )

    @extend_schema(request=ReasonSerializer, responses=serializers.PoolSerializer)
    @action(detail=True, methods=["post"])
    def start_sharing(self, request: Request, name: str) -> Response:
        """Raise the pool and its shareable GPUs to enforce."""
        pool, user = self.get_object(), caller(request)
        access.require(user, Role.OPERATOR, pool)
        sharing.start([pool], person(user), reason_of(request), timezone.now())
        return self._fresh()

    @extend_schema(request=ReasonSerializer, responses=serializers.PoolSerializer)
    @action(detail=True, methods=["post"])
    def stop_sharing(self, request: Request, name: str) -> Response:
        """Lower the pool to observe at once and ask for the end of all that runs."""
        pool, user = self.get_object(), caller(request)
        access.require_one(user, sharing.BRAKE, pool)
        sharing.stop([pool], person(user), reason_of(request), timezone.now())
        return self._fresh()

    @extend_schema(request=serializers.ModeSerializer, responses=serializers.PoolSerializer)
    @action(detail=True, methods=["post"])
    def set_mode(self, request: Request, name: str) -> Response:
        """Set the pool's own mode; its GPUs keep theirs."""
        pool = self.get_object()
        _set_mode(request, pool, pool)
        return self._fresh()

    def _fresh(self) -> Response:
        return Response(self.get_serializer(self.get_object()).data)


class NodeViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Node]):
    queryset = Node.objects.select_related("pool")
    serializer_class = serializers.NodeSerializer
    filterset_class = NodeFilter
    lookup_field = "name"
    lookup_value_regex = "[^/]+"

    @extend_schema(request=ReasonSerializer, responses=serializers.NodeSerializer)
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, name: str) -> Response:
        """No new placements from now on."""
        return self._do(request, nodes.cordon)

    @extend_schema(request=ReasonSerializer, responses=serializers.NodeSerializer)
    @action(detail=True, methods=["post"])
    def uncordon(self, request: Request, name: str) -> Response:
        """New placements again; also ends a drain."""
        return self._do(request, nodes.uncordon)

    @extend_schema(request=ReasonSerializer, responses=serializers.NodeSerializer)
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, name: str) -> Response:
        """Cordon the node and ask for the end of all that runs there."""
        return self._do(request, draining.drain)

    @extend_schema(request=ReasonSerializer, responses=serializers.NodeSerializer)
    @action(detail=True, methods=["post"])
    def forbid_sharing(self, request: Request, name: str) -> Response:
        """Place nothing on its GPUs, whatever their mode; what runs goes on."""
        return self._do(request, never_share.forbid)

    @extend_schema(request=ReasonSerializer, responses=serializers.NodeSerializer)
    @action(detail=True, methods=["post"])
    def allow_sharing(self, request: Request, name: str) -> Response:
        """The modes decide again."""
        return self._do(request, never_share.allow)

    @extend_schema(responses=serializers.DrainStepSerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def preview_drain(self, request: Request, name: str) -> Response:
        """What draining would do, placement by placement; changes nothing."""
        steps = draining.preview_drain(self.get_object())
        return Response(
            [
                {
                    "placement": step.placement.pk,
                    "job": step.placement.job.name,
                    "outlook": step.outlook,
                    "why": step.why,
                }
                for step in steps
            ]
        )

    def _do(self, request: Request, change: Any) -> Response:
        node, user = self.get_object(), caller(request)
        access.require(user, Role.OPERATOR, node.pool)
        change(node, person(user), reason_of(request), timezone.now())
        return Response(self.get_serializer(self.get_object()).data)


class GpuViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Gpu]):
    queryset = Gpu.objects.select_related("node__pool")
    serializer_class = serializers.GpuSerializer
    filterset_class = GpuFilter
    pool_path = "node__pool"

    @extend_schema(request=serializers.ModeSerializer, responses=serializers.GpuSerializer)
    @action(detail=True, methods=["post"])
    def set_mode(self, request: Request, pk: str) -> Response:
        """Set the GPU's own mode; the lower of it and the pool's holds."""
        gpu = self.get_object()
        _set_mode(request, gpu, gpu.node.pool)
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=ReasonSerializer, responses=serializers.GpuSerializer)
    @action(detail=True, methods=["post"])
    def forbid_sharing(self, request: Request, pk: str) -> Response:
        """Place nothing there, whatever its mode; what runs goes on."""
        return self._mark(request, never_share.forbid)

    @extend_schema(request=ReasonSerializer, responses=serializers.GpuSerializer)
    @action(detail=True, methods=["post"])
    def allow_sharing(self, request: Request, pk: str) -> Response:
        """The modes decide again."""
        return self._mark(request, never_share.allow)

    def _mark(self, request: Request, change: Any) -> Response:
        gpu, user = self.get_object(), caller(request)
        access.require(user, Role.OPERATOR, gpu.node.pool)
        change(gpu, person(user), reason_of(request), timezone.now())
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=ReasonSerializer, responses=serializers.GpuSerializer)
    @action(detail=True, methods=["post"])
    def disable(self, request: Request, pk: str) -> Response:
        """Take the GPU out of use, with the end of what runs on it."""
        gpu, user = self._for_operator(request)
        emptying.take_out(gpu, person(user), reason_of(request), timezone.now())
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(request=ReasonSerializer, responses=serializers.GpuSerializer)
    @action(detail=True, methods=["post"])
    def enable(self, request: Request, pk: str) -> Response:
        """Let the agent judge the GPU afresh."""
        gpu, user = self._for_operator(request)
        nodes.enable_gpu(gpu, person(user), reason_of(request), timezone.now())
        return Response(self.get_serializer(self.get_object()).data)

    def _for_operator(self, request: Request) -> tuple[Gpu, Any]:
        gpu, user = self.get_object(), caller(request)
        access.require(user, Role.OPERATOR, gpu.node.pool)
        return gpu, user


class SharingChangeViewSet(mixins.ListModelMixin, PoolScoped[SharingChange]):
    """Who changed a sharing mode, when, why, and what the week before looked like."""

    queryset = SharingChange.objects.select_related("pool", "gpu").order_by("-at", "-pk")
    serializer_class = serializers.SharingChangeSerializer
    filterset_class = SharingChangeFilter


class EnrolmentTokenViewSet(
    mixins.ListModelMixin, mixins.CreateModelMixin, PoolScoped[EnrolmentToken]
):
    queryset = EnrolmentToken.objects.select_related("pool", "created_by", "used_by").order_by(
        "-pk"
    )
    serializer_class = serializers.EnrolmentTokenSerializer

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A one-time token. Its secret is in this answer and never again."""
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        pool, user = body.validated_data["pool"], caller(request)
        access.require(user, Role.ADMIN, pool)
        secret = enrolment.issue(pool, user, timezone.now())
        token = self.get_queryset().get(sha256=digest(secret))
        context = {**self.get_serializer_context(), "secret": secret}
        answer = serializers.EnrolmentTokenSerializer(token, context=context)
        return Response(answer.data, status=status.HTTP_201_CREATED)


class EnrolThrottle(AnonRateThrottle):
    """Guessing a 256-bit token is hopeless anyway; this keeps the attempts out of the database."""

    rate = "60/min"


@extend_schema(
    request=serializers.EnrolSerializer, responses={201: serializers.CredentialsSerializer}, auth=[]
)
@api_view(["POST"])
@authentication_classes([])
@permission_classes([])
@throttle_classes([EnrolThrottle])
def enrol(request: Request) -> Response:
    """A machine with a one-time token becomes a node. No other sign-in is needed."""
    body = serializers.EnrolSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    claims = [GpuInventory(**claim) for claim in body.validated_data["gpus"]]
    credentials = enrolment.enrol(
        body.validated_data["token"], body.validated_data["node"], claims, timezone.now()
    )
    answer = serializers.CredentialsSerializer(credentials)
    return Response(answer.data, status=status.HTTP_201_CREATED)


@extend_schema(request=serializers.ImportSerializer, responses={202: RunSerializer})
@api_view(["POST"])
@permission_classes([IsViewer])
def import_cluster(request: Request) -> Response:
    """Import a cluster file; the run that is returned tells how far it is."""
    body = serializers.ImportSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    run = import_runs.start(
        body.validated_data["document"],
        body.validated_data["file_name"],
        caller(request),
        timezone.now(),
    )
    return Response(RunSerializer(run).data, status=status.HTTP_202_ACCEPTED)


def _set_mode(request: Request, target: Pool | Gpu, pool: Pool) -> None:
    body = serializers.ModeSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    mode, user = SharingMode(body.validated_data["mode"]), caller(request)
    access.require_one(user, sharing.roles_to_set(target.sharing_mode, mode), pool)
    sharing.set_mode(target, mode, person(user), body.validated_data["reason"], timezone.now())
