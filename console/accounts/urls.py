from __future__ import annotations

from django.urls import path

from console.accounts import settings_views, views

urlpatterns = [
    path("sign-in/", views.sign_in, name="sign_in"),
    path("sign-out/", views.sign_out, name="sign_out"),
    path("settings/", settings_views.settings_page, name="settings"),
    path("settings/people/", settings_views.person_add, name="person_add"),
    path("settings/people/<int:pk>/active/", settings_views.person_active, name="person_active"),
    path("settings/roles/", settings_views.role_bind, name="role_bind"),
    path("settings/roles/<int:pk>/remove/", settings_views.role_unbind, name="role_unbind"),
    path("settings/teams/", settings_views.team_add, name="team_add"),
    path("settings/teams/<int:pk>/", settings_views.team_cap, name="team_cap"),
    path("settings/tokens/", settings_views.token_new, name="token_new"),
    path("settings/tokens/<int:pk>/revoke/", settings_views.token_revoke, name="token_revoke"),
    path("settings/enrolment/", settings_views.enrolment_new, name="enrolment_new"),
    path("settings/pools/", settings_views.pool_new, name="pool_new"),
    path("settings/import/", settings_views.import_new, name="import_new"),
    path("settings/prometheus/", settings_views.prometheus_save, name="prometheus_save"),
    path("settings/prometheus/forget/", settings_views.prometheus_forget, name="prometheus_forget"),
]
