from __future__ import annotations

from django.urls import path

from console.demo import views

urlpatterns = [
    path("sign-in/", views.demo_sign_in, name="demo_sign_in"),
    path("switch-user/", views.demo_switch_user, name="demo_switch_user"),
    path("fault/", views.demo_fault, name="demo_fault"),
    path("sigterm/", views.demo_sigterm, name="demo_sigterm"),
]
