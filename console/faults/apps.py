from __future__ import annotations

from django.apps import AppConfig


class FaultsConfig(AppConfig):
    name = "console.faults"
