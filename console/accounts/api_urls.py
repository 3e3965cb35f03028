from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from console.accounts import api

router = SimpleRouter()
router.register("users", api.UserViewSet)
router.register("role-bindings", api.BindingViewSet)
router.register("tokens", api.TokenViewSet)

urlpatterns = [
    path("me/", api.who_am_i, name="api_me"),
    path("", include(router.urls)),
]
