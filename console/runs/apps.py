from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "console.runs"
