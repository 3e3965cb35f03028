from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Shell of the product: template tags, system checks, shared commands."""

    name = "console"

    def ready(self) -> None:
        from console import checks  # noqa: F401  (registers itself once the apps are loaded)
