from __future__ import annotations

from django.urls import path
from rest_framework.routers import SimpleRouter

from console.predictor import api

router = SimpleRouter()
router.register("predictor/versions", api.VersionViewSet)

urlpatterns = [
    *router.urls,
    path("predictor/", api.in_force),
    path("predictor/retrain/", api.retrain),
    path("predictor/observations/", api.observations),
]
