"""People, roles and tokens over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import api_view, permission_classes
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from console.accounts import access, serializers, services, tokens
from console.accounts.models import ApiToken, Role, RoleBinding, User
from console.api import caller


class IsAdminSomewhere(BasePermission):
    """Users are seen by whoever may give roles in at least one pool."""

    message = access.missing(Role.ADMIN)

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        return isinstance(user, User) and access.pools_for(user, Role.ADMIN).exists()


class UserViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[User]):
    queryset = User.objects.prefetch_related("bindings__pool", "bindings__user").order_by(
        "username"
    )
    serializer_class = serializers.UserSerializer
    permission_classes = (IsAdminSomewhere,)


class BindingViewSet(
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.CreateModelMixin,
    mixins.DestroyModelMixin,
    GenericViewSet[RoleBinding],
):
    queryset = RoleBinding.objects.select_related("user", "pool").order_by("pk")
    serializer_class = serializers.BindingSerializer
    permission_classes = (IsAdminSomewhere,)

    def perform_create(self, serializer: BaseSerializer[RoleBinding]) -> None:
        wanted = serializer.validated_data
        serializer.instance = services.bind(
            wanted["user"],
            Role(wanted["role"]),
            wanted["pool"],
            caller(self.request),
            timezone.now(),
        )

    def perform_destroy(self, instance: RoleBinding) -> None:
        services.unbind(instance, caller(self.request), timezone.now())


class TokenViewSet(
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.DestroyModelMixin,
    GenericViewSet[ApiToken],
):
    """One's own tokens."""

    queryset = ApiToken.objects.select_related("user").order_by("-created_at", "-pk")
    serializer_class = serializers.TokenSerializer
    permission_classes = (IsAuthenticated,)

    def get_queryset(self) -> QuerySet[ApiToken]:
        if getattr(self, "swagger_fake_view", False):
            return super().get_queryset().none()
        return super().get_queryset().filter(user=caller(self.request))

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A new token. Its secret is in this answer and never again."""
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        token, secret = tokens.create(
            caller(request), wanted["name"], timezone.now(), wanted.get("expires_at")
        )
        context = {**self.get_serializer_context(), "secret": secret}
        answer = serializers.TokenSerializer(token, context=context)
        return Response(answer.data, status=status.HTTP_201_CREATED)

    def perform_destroy(self, instance: ApiToken) -> None:
        """Closed at once; the row stays, for the audit."""
        tokens.revoke(instance, caller(self.request), timezone.now())


@extend_schema(responses=serializers.WhoAmISerializer)
@api_view(["GET"])
@permission_classes([IsAuthenticated])
def who_am_i(request: Request) -> Response:
    """Who this token or session acts as, and what they may do."""
    user = caller(request)
    bindings = user.bindings.select_related("user", "pool")
    answer = serializers.WhoAmISerializer({"username": user.username, "bindings": bindings})
    return Response(answer.data)
