"""Every page asks for a sign-in, except those that say otherwise."""

from __future__ import annotations

from django.contrib.auth.middleware import LoginRequiredMiddleware


class SignInRequiredMiddleware(LoginRequiredMiddleware):
    """Django's own, with probes, API and static files left to their own rules."""

    OPEN = ("/healthz", "/readyz", "/api/", "/static/", "/admin/")

    def process_view(self, request, view_func, view_args, view_kwargs):  # type: ignore[no-untyped-def]
        if request.path.startswith(self.OPEN):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)
