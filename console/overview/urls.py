from __future__ import annotations

from django.conf import settings
from django.urls import path

from console.overview import views
from console.styleguide import styleguide

urlpatterns = [
    path("", views.overview, name="overview"),
    path("overview/series.json", views.series_json, name="overview_series"),
]
if settings.DEBUG or settings.MUXFLOW_DEMO:
    urlpatterns.append(path("styleguide/", styleguide, name="styleguide"))
