from __future__ import annotations

from django.urls import path

from console.replay import views

urlpatterns = [path("gpus/<int:gpu_id>/replay/", views.replay, name="replay")]
