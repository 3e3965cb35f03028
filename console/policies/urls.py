from __future__ import annotations

from django.urls import path

from console.policies import views

urlpatterns = [
    path("policies/", views.policies, name="policies"),
    path("policies/<slug:slug>/", views.policy, name="policy"),
    path("policies/<slug:slug>/edit/", views.policy_edit, name="policy_edit"),
]
