from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.workloads import api

router = SimpleRouter()
router.register("teams", api.TeamViewSet)
router.register("services", api.ServiceViewSet)
router.register("instances", api.InstanceViewSet)
router.register("jobs", api.JobViewSet)

urlpatterns = router.urls
