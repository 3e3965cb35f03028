"""Sign in and out."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.pages import ours


@login_not_required
@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return redirect(_next(request))
    form = AuthenticationForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        login(request, form.get_user())
        return redirect(_next(request))
    status = 400 if form.is_bound else 200
    return render(
        request, "accounts/sign_in.html", {"form": form, "next": _next(request)}, status=status
    )


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


def locked_out(
    request: HttpRequest, original_response: HttpResponse | None, credentials: object
) -> HttpResponse:
    """What django-axes answers after too many wrong passwords."""
    form = AuthenticationForm(request)
    minutes = round(settings.AXES_COOLOFF_TIME * 60)
    message = f"Too many wrong passwords for this name. Try again in {minutes} minutes."
    context = {"form": form, "next": _next(request), "locked": message}
    return render(request, "accounts/sign_in.html", context, status=429)


def _next(request: HttpRequest) -> str:
    """Where the person wanted to go, when that is a page of ours."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    return ours(wanted, settings.LOGIN_REDIRECT_URL)
