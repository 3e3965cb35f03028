"""Start the story's clock with the first page that a person sees."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from console.demo import first_view

NOT_PAGES = ("/healthz", "/readyz", "/static/", "/api/", "/ws/", "/live/", "/admin/")


class FirstViewMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.noted = False

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not self.noted and self._is_page(request, response):
            first_view.note(timezone.now())
            self.noted = True
        return response

    def _is_page(self, request: HttpRequest, response: HttpResponse) -> bool:
        return (
            request.method == "GET"
            and response.status_code == 200
            and request.user.is_authenticated
            and not request.path.startswith(NOT_PAGES)
        )
