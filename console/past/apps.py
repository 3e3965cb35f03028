from __future__ import annotations

from django.apps import AppConfig


class PastConfig(AppConfig):
    name = "console.past"
