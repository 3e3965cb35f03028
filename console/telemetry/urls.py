"""Pages of the live map."""

from __future__ import annotations

from django.urls import path

from console.telemetry import views

urlpatterns = [
    path("map/", views.map_page, name="map"),
    path("live/layout.json", views.live_layout, name="live_layout"),
    path("gpus/<int:gpu_id>/", views.gpu_page, name="gpu"),
    path("gpus/<int:gpu_id>/xids/", views.gpu_xids, name="gpu_xids"),
    path("gpus/<int:gpu_id>/series.json", views.gpu_series, name="gpu_series"),
]
