from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.audit import api

router = SimpleRouter()
router.register("audit", api.EntryViewSet)

urlpatterns = router.urls
