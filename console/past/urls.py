from __future__ import annotations

from django.urls import path

from console.past import views

urlpatterns = [path("past/<slug:kind>/<int:owner>/", views.past, name="past")]
