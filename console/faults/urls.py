from __future__ import annotations

from django.urls import path

from console.faults import views

urlpatterns = [path("faults/<uuid:pk>/", views.fault, name="fault")]
