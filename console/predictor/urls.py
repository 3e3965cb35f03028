from __future__ import annotations

from django.urls import path

from console.predictor import views

urlpatterns = [
    path("predictor/", views.predictor, name="predictor"),
    path("predictor/retrain/", views.retrain, name="predictor_retrain"),
    path("predictor/stop/", views.stop, name="predictor_stop"),
    path("predictor/automatic/", views.automatic, name="predictor_automatic"),
    path("predictor/back/", views.roll_back, name="predictor_back"),
    path("predictor/<int:number>/promote/", views.promote, name="predictor_promote"),
    path("predictor/observations.csv", views.observations, name="predictor_observations"),
    path("predictor/observations/", views.import_observations, name="predictor_import"),
]
