from __future__ import annotations

from django.urls import path

from console.forecasts import views

urlpatterns = [
    path("gpus/<int:gpu_id>/forecast.json", views.gpu_forecast, name="gpu_forecast"),
    path("services/<int:pk>/forecast.json", views.service_forecast, name="service_forecast"),
    path("services/<int:pk>/expected/", views.service_expected, name="service_expected"),
]
