from __future__ import annotations

from django.urls import path

from console.audit import views

urlpatterns = [
    path("audit/", views.audit, name="audit"),
    path("audit/verify/", views.verify, name="audit_verify"),
]
