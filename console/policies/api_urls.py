from __future__ import annotations

from rest_framework.routers import SimpleRouter

from console.policies import api

router = SimpleRouter()
router.register("policies", api.PolicyViewSet)

urlpatterns = router.urls
