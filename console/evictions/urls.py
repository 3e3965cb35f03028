from __future__ import annotations

from django.urls import path

from console.evictions import views

urlpatterns = [
    path("evictions/", views.evictions, name="evictions"),
    path("evictions/review/", views.review, name="eviction_review"),
    path("evictions/<uuid:pk>/", views.eviction, name="eviction"),
    path("evictions/<uuid:pk>/approve/", views.approve, name="eviction_approve"),
    path("evictions/<uuid:pk>/keep/", views.keep, name="eviction_keep"),
    path("evictions/<uuid:pk>/undo/", views.undo, name="eviction_undo"),
    path("evictions/<uuid:pk>/chart.json", views.eviction_chart, name="eviction_chart"),
    path("gpus/<int:gpu_id>/evict/", views.eviction_new, name="eviction_new"),
]
