from __future__ import annotations

from django.urls import path

from console.forecasts import views

urlpatterns = [
    path("gpus/<int:gpu_id>/forecast.json", views.gpu_forecast, name="gpu_forecast"),
]
