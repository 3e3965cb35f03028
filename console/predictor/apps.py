from __future__ import annotations

from django.apps import AppConfig


class PredictorConfig(AppConfig):
    name = "console.predictor"
