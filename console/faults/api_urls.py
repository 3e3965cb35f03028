from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.faults import api

router = SimpleRouter()
router.register("faults", api.FaultViewSet)

urlpatterns = router.urls
