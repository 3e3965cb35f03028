from __future__ import annotations

from django.apps import AppConfig


class EvictionsConfig(AppConfig):
    name = "console.evictions"
