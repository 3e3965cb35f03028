from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from console.inventory import api

router = SimpleRouter()
router.register("pools", api.PoolViewSet)
router.register("nodes", api.NodeViewSet)
router.register("gpus", api.GpuViewSet)
router.register("sharing-changes", api.SharingChangeViewSet)
router.register("enrolment-tokens", api.EnrolmentTokenViewSet)

urlpatterns = [
    path("enrol/", api.enrol, name="api_enrol"),
    path("imports/", api.import_cluster, name="api_import"),
    path("", include(router.urls)),
]
