from __future__ import annotations

from django.urls import path

from console.metrics import views

urlpatterns = [
    path("metrics", views.process, name="metrics"),
    path("metrics/fleet", views.fleet, name="metrics_fleet"),
]
