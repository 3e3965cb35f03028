from __future__ import annotations

from django.urls import path

from console.history import api

urlpatterns = [path("history/", api.history, name="api_history")]
