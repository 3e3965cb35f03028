"""Every address of the console: pages, API, probes."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from console import probes

api: list[URLPattern | URLResolver] = [
    path("", include("console.accounts.api_urls")),
    path("", include("console.audit.api_urls")),
    path("", include("console.inventory.api_urls")),
    path("", include("console.workloads.api_urls")),
    path("", include("console.policies.api_urls")),
    path("", include("console.scheduling.api_urls")),
    path("", include("console.evictions.api_urls")),
    path("", include("console.faults.api_urls")),
    path("", include("console.telemetry.api_urls")),
    path("", include("console.history.api_urls")),
    path("", include("console.forecasts.api_urls")),
    path("", include("console.runs.api_urls")),
    path("", include("console.predictor.api_urls")),
    path("schema/", SpectacularAPIView.as_view(), name="api_schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="api_schema"), name="api_docs"),
]

handler400 = "console.api.bad_request"
handler404 = "console.api.not_found"

urlpatterns = [
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
    path("", include("console.metrics.urls")),
    path("api/v1/", include(api)),
    path("admin/", admin.site.urls),
    path("", include("console.overview.urls")),
    path("", include("console.accounts.urls")),
    path("", include("console.audit.urls")),
    path("", include("console.inventory.urls")),
    path("", include("console.workloads.urls")),
    path("", include("console.policies.urls")),
    path("", include("console.scheduling.urls")),
    path("", include("console.evictions.urls")),
    path("", include("console.faults.urls")),
    path("", include("console.telemetry.urls")),
    path("", include("console.past.urls")),
    path("", include("console.prometheus.urls")),
    path("", include("console.replay.urls")),
    path("", include("console.forecasts.urls")),
    path("", include("console.predictor.urls")),
]
if settings.MUXFLOW_DEMO:
    urlpatterns.append(path("demo/", include("console.demo.urls")))
