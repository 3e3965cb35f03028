from __future__ import annotations

from django.urls import path

from console.telemetry import api

urlpatterns = [
    path("gpus/<int:gpu_id>/live/", api.gpu_live, name="api_gpu_live"),
    path("fleet/", api.fleet_now, name="api_fleet"),
]
