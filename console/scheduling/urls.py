from __future__ import annotations

from django.urls import path

from console.scheduling import views

urlpatterns = [
    path("rounds/", views.rounds, name="rounds"),
    path("rounds/why/", views.why_not, name="why_not"),
    path("avoids/<int:pk>/lift/", views.avoid_lift, name="avoid_lift"),
    path("rounds/<int:pk>/", views.round, name="round"),
    path("rounds/<int:pk>/plan/", views.plan_decide, name="plan_decide"),
]
