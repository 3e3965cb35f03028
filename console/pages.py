"""What views of pages share: do something and say so, ask in a dialog, go back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme

from console.accounts.access import SreRequest
from console.errors import MuxFlowError


def act(
    request: HttpRequest, change: Callable[[], object], done: str, default: str
) -> HttpResponse:
    """Make the change and go back with a word of what was done, or of why it was not."""
    try:
        change()
    except MuxFlowError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, done)
    return redirect(back(request, default))


def back(request: HttpRequest, default: str) -> str:
    """Where the person came from, when that is a page of ours, else `default`."""
    return ours(request.POST.get("next") or _came_from(request), default)


def ours(wanted: str, default: str) -> str:
    """`wanted` when it is the path of a page of ours, else the address of `default`."""
    is_path = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, None)
    return wanted if is_path else resolve_url(default)


def _came_from(request: HttpRequest) -> str:
    """The path of the page before, "" when that is another site's or no address at all."""
    try:
        before = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return ""
    if before.netloc != request.get_host():
        return ""
    return before.path + (f"?{before.query}" if before.query else "")


def reason_of(request: HttpRequest) -> str:
    """`Owner asked: until Monday`: the chip, then the note."""
    parts = (request.POST.get("reason", "").strip(), request.POST.get("note", "").strip())
    return ": ".join(part for part in parts if part)[:1_000]


def dialog(request: SreRequest, fragment: str, context: dict[str, Any]) -> HttpResponse:
    """The fragment for the dialog that htmx fills, else a page that holds it."""
    if request.htmx and not request.htmx.boosted:
        return render(request, fragment, context)
    return render(request, "components/dialog_page.html", {**context, "fragment": fragment})
