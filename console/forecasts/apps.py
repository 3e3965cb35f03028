from __future__ import annotations

from django.apps import AppConfig


class ForecastsConfig(AppConfig):
    name = "console.forecasts"
