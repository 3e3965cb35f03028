from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "console.demo"
