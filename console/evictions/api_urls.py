from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.evictions import api

router = SimpleRouter()
router.register("evictions", api.EvictionViewSet)

urlpatterns = router.urls
