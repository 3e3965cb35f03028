"""What every page shows around its content."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def context(request: HttpRequest) -> dict[str, Any]:
    return {}
