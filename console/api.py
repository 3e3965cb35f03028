"""What all REST views share: pages, and errors that say what failed and the way out."""

from __future__ import annotations

from typing import Any

from rest_framework import status
from rest_framework.pagination import PageNumberPagination
from rest_framework.response import Response
from rest_framework.views import exception_handler

from console.errors import Invalid, MuxFlowError, Refused, Unavailable


class Pages(PageNumberPagination):
    page_size = 100
    page_size_query_param = "page_size"
    max_page_size = 1_000


def explain(error: Exception, context: dict[str, Any]) -> Response | None:
    """Our own errors as {"detail": …}, with the status code of their kind."""
    if not isinstance(error, MuxFlowError):
        return exception_handler(error, context)
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    body: dict[str, Any] = {"detail": str(error)}
    if isinstance(error, Invalid) and error.fields:
        body["fields"] = error.fields
    return Response(body, status=code)


_CODES: tuple[tuple[type[MuxFlowError], int], ...] = (
    (Refused, status.HTTP_409_CONFLICT),
    (Invalid, status.HTTP_400_BAD_REQUEST),
    (Unavailable, status.HTTP_503_SERVICE_UNAVAILABLE),
    (MuxFlowError, status.HTTP_400_BAD_REQUEST),
)
