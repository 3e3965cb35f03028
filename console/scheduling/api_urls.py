from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.scheduling import api

router = SimpleRouter()
router.register("rounds", api.RoundViewSet)
router.register("placements", api.PlacementViewSet)
router.register("avoids", api.AvoidViewSet)

urlpatterns = router.urls
