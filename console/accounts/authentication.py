"""Who calls the REST API: `Authorization: Bearer mux_…` acts as the token's user."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from console.accounts import tokens
from console.accounts.models import ApiToken, User


class ApiTokenAuthentication(BaseAuthentication):
    """Leaves requests without a bearer token to the session."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        token = tokens.find(secret.decode("ascii", "replace").strip(), timezone.now())
        if token is None:
            raise AuthenticationFailed(
                "This token is unknown, expired or revoked; make a new one under Settings."
            )
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="muxflow"'


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names it."""

    target_class = ApiTokenAuthentication
    name = "apiToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
