from __future__ import annotations

from django.urls import path

from console.prometheus import views

urlpatterns = [path("services/<int:pk>/prometheus/", views.answers, name="service_prometheus")]
