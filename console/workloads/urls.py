from __future__ import annotations

from django.urls import path

from console.workloads import views

urlpatterns = [
    path("jobs/", views.job_list, name="jobs"),
    path("jobs/new/", views.job_new, name="job_new"),
    path("jobs/<uuid:pk>/", views.job, name="job"),
    path("jobs/<uuid:pk>/cancel/", views.job_cancel, name="job_cancel"),
    path("jobs/<uuid:pk>/lift-hold/", views.job_lift_hold, name="job_lift_hold"),
    path("services/", views.service_list, name="services"),
    path("services/<int:pk>/", views.service, name="service"),
    path("services/<int:pk>/never-share/", views.service_never_share, name="service_never_share"),
    path("services/<int:pk>/beside/", views.service_beside, name="service_beside"),
    path("services/<int:pk>/series.json", views.service_series, name="service_series"),
    path("gpus/<int:gpu_id>/beside/", views.gpu_beside, name="gpu_beside"),
]
