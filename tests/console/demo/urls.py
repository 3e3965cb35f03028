"""The console's addresses with the demo switched on."""

from __future__ import annotations

from django.urls import include, path

from console.urls import handler404 as handler404
from console.urls import urlpatterns as product

urlpatterns = [*product, path("demo/", include("console.demo.urls"))]
