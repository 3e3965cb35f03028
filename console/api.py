"""What all REST views share: pages, permission, and errors that say what failed and the way out.

An error is `{"detail": sentence}`, with `fields` naming what does not fit in what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.defaults import bad_request as malformed
from django.views.defaults import page_not_found
from rest_framework import status
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from console.accounts import access
from console.accounts.models import Role, User
from console.errors import Invalid, MuxFlowError, Refused, Unavailable

M = TypeVar("M", bound=Model)


class Pages(PageNumberPagination):
    page_size = 100
    page_size_query_param = "page_size"
    max_page_size = 1_000


class IsViewer(BasePermission):
    """Whoever holds any role may ask; what they see is limited to their pools."""

    message = "You hold no role yet; an admin can give you one under Settings."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.user, User) and access.allowed(request.user, Role.VIEWER)


def in_sight(rows: QuerySet[M], user: User, pool_path: str) -> QuerySet[M]:
    """`rows` without those of pools that `user` may not see."""
    if access.sees_all(user):
        return rows
    path = f"{pool_path}__in" if pool_path else "pk__in"
    return rows.filter(**{path: access.pools_for(user, Role.VIEWER)})


def caller(request: Request) -> User:
    """Who asks. The permission classes have let only people through."""
    assert isinstance(request.user, User)  # noqa: S101  (for the type checker)
    return request.user


def explain(error: Exception, context: dict[str, Any]) -> Response | None:
    """Every error in one shape, with the status code of its kind."""
    if isinstance(error, MuxFlowError):
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        fields = error.fields if isinstance(error, Invalid) else {}
        return Response(_body(str(error), fields), status=code)
    if isinstance(error, Http404):
        error = NotFound("There is no such object, or it is in a pool that you may not see.")
    response = exception_handler(error, context)
    if response is not None and isinstance(error, ValidationError):
        response.data = _body("Some values do not fit.", dict(_flat(error.detail)))
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page that is not there; for the API the same as a sentence."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": "There is no such address; see /api/v1/docs/."}, status=404)
    return page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page for a request that is malformed; for the API the same as a sentence."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": "This request is malformed."}, status=400)
    return malformed(request, exception)


_CODES: Final[tuple[tuple[type[MuxFlowError], int], ...]] = (
    (Refused, status.HTTP_409_CONFLICT),
    (Invalid, status.HTTP_400_BAD_REQUEST),
    (Unavailable, status.HTTP_503_SERVICE_UNAVAILABLE),
    (MuxFlowError, status.HTTP_400_BAD_REQUEST),
)


def _body(detail: str, fields: Mapping[str, str]) -> dict[str, Any]:
    return {"detail": detail, "fields": dict(fields)} if fields else {"detail": detail}


def _flat(detail: Any, path: str = "") -> list[tuple[str, str]]:
    """`nodes.3.name` and its sentence, for every leaf of DRF's nested errors."""
    if isinstance(detail, dict):
        return [leaf for key, value in detail.items() for leaf in _flat(value, _join(path, key))]
    if isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        return [leaf for i, item in enumerate(detail) for leaf in _flat(item, _join(path, i))]
    texts = detail if isinstance(detail, list) else [detail]
    return [(path or "body", " ".join(str(text) for text in texts))]


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def describe_errors(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Names the errors that every operation can answer in the OpenAPI document."""
    result["components"]["schemas"]["Problem"] = _PROBLEM
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for operation in path.values():
            for code, description in _ERRORS.items():
                answer = {"description": description, "content": content}
                operation["responses"].setdefault(code, answer)
    return result


_PROBLEM: Final = {
    "type": "object",
    "properties": {
        "detail": {"type": "string", "description": "What failed, why, and the way out."},
        "fields": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["detail"],
}
_ERRORS: Final = {
    "400": "What was sent does not fit; `fields` says where.",
    "401": "No valid session or token.",
    "403": "The caller lacks the role that `detail` names.",
    "404": "There is no such object in the pools that the caller may see.",
    "405": "This address knows no such method.",
    "409": "The rules say no, or somebody was first.",
    "415": "Send JSON.",
    "429": "Too many calls; try again later.",
    "503": "A service that is needed does not answer; try again.",
}
