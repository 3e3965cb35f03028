from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.runs.api import RunViewSet

router = SimpleRouter()
router.register("runs", RunViewSet)

urlpatterns = router.urls
