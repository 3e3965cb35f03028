from __future__ import annotations

from django.urls import path

from console.forecasts import api

urlpatterns = [
    path("gpus/<int:gpu_id>/forecast/", api.gpu_forecast, name="api_gpu_forecast"),
    path("services/<int:pk>/forecast/", api.service_forecast, name="api_service_forecast"),
]
