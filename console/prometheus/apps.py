from __future__ import annotations

from django.apps import AppConfig


class PrometheusConfig(AppConfig):
    name = "console.prometheus"
