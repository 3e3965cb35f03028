from __future__ import annotations

from django.urls import path

from console.inventory import views

urlpatterns = [
    path("nodes/", views.node_list, name="nodes"),
    path("nodes/<str:name>/", views.node, name="node"),
    path("nodes/<str:name>/cordon/", views.node_cordon, name="node_cordon"),
    path("nodes/<str:name>/uncordon/", views.node_uncordon, name="node_uncordon"),
    path("nodes/<str:name>/never-share/", views.node_never_share, name="node_never_share"),
    path("nodes/<str:name>/drain/", views.node_drain, name="node_drain"),
    path("gpus/<int:gpu_id>/disable/", views.gpu_disable, name="gpu_disable"),
    path("gpus/<int:gpu_id>/enable/", views.gpu_enable, name="gpu_enable"),
    path("gpus/<int:gpu_id>/never-share/", views.gpu_never_share, name="gpu_never_share"),
    path("gpus/<int:gpu_id>/mode/", views.gpu_mode, name="gpu_mode"),
    path("pools/", views.pool_list, name="pools"),
    path("pools/<slug:name>/mode/", views.pool_mode, name="pool_mode"),
    path("sharing/start/", views.sharing_start, name="sharing_start"),
    path("sharing/stop/", views.stop_sharing, name="stop_sharing"),
]
