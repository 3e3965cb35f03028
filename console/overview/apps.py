from __future__ import annotations

from django.apps import AppConfig


class OverviewConfig(AppConfig):
    name = "console.overview"
