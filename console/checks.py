"""System checks with ids: each says what is wrong and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register


@register(Tags.security)
def secrets_are_set(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """A console that other machines can reach must not run with the checkout's secrets."""
    public = set(settings.ALLOWED_HOSTS) - {"127.0.0.1", "localhost", "[::1]", "testserver"}
    if not public or "only-for-a-checkout" not in {settings.SECRET_KEY, settings.MASTER_SECRET}:
        return []
    return [
        Error(
            f"MUXFLOW_ALLOWED_HOSTS opens the console to {', '.join(sorted(public))},"
            " but it runs with the secrets of a checkout.",
            hint="Set MUXFLOW_SECRET_KEY and MUXFLOW_MASTER_SECRET to random values.",
            id="muxflow.E001",
        )
    ]
