"""Django's admin as a reader of the database. What it shows is changed on pages and in the API,
where permissions, states and the audit are kept; only sign-in names are edited here."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model
from django.http import HttpRequest

from console.accounts.models import ApiToken, RoleBinding, User
from console.inventory.models import EnrolmentToken, Gpu, Node, Pool, SharingChange
from console.runs.models import Lease, Run
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService, Team


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Looks, and changes nothing."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    """Names and passwords; roles are given under Settings."""

    list_display = ("username", "first_name", "last_name", "is_active", "last_login")
    list_filter = ("is_active", "is_superuser")


@admin.register(Pool)
class PoolAdmin(ReadOnly):
    list_display = ("name", "sharing_mode", "policy", "time_zone", "holdback_percent")
    list_select_related = ("policy",)


@admin.register(Node)
class NodeAdmin(ReadOnly):
    list_display = ("name", "pool", "state", "source", "cordoned", "draining", "agent_version")
    list_filter = ("state", "source", "pool", "cordoned")
    list_select_related = ("pool",)
    search_fields = ("name",)
    exclude = ("token_sha256",)


@admin.register(Gpu)
class GpuAdmin(ReadOnly):
    list_display = ("id", "node", "index", "model", "state", "sharing_mode", "conflict")
    list_filter = ("state", "sharing_mode", "conflict", "model")
    list_select_related = ("node",)
    search_fields = ("uuid", "node__name")


@admin.register(SharingChange)
class SharingChangeAdmin(ReadOnly):
    list_display = ("at", "pool", "gpu", "before", "after", "actor", "reason")
    list_select_related = ("pool", "gpu__node")


@admin.register(EnrolmentToken)
class EnrolmentTokenAdmin(ReadOnly):
    list_display = ("pool", "created_by", "created_at", "expires_at", "used_at", "used_by")
    list_select_related = ("pool", "created_by", "used_by")
    exclude = ("sha256",)


@admin.register(RoleBinding)
class RoleBindingAdmin(ReadOnly):
    list_display = ("user", "role", "pool")
    list_filter = ("role", "pool")
    list_select_related = ("user", "pool")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnly):
    list_display = ("name", "user", "prefix", "created_at", "expires_at", "revoked_at")
    list_select_related = ("user",)
    exclude = ("sha256",)


@admin.register(OnlineService)
class ServiceAdmin(ReadOnly):
    list_display = ("name", "team", "pool", "tier", "slo_p99_ms")
    list_filter = ("pool", "team", "tier")
    list_select_related = ("team", "pool")
    search_fields = ("name",)


@admin.register(OnlineInstance)
class InstanceAdmin(ReadOnly):
    list_display = ("service", "gpu", "gpu_percent")
    list_select_related = ("service", "gpu__node")


@admin.register(OfflineJob)
class JobAdmin(ReadOnly):
    list_display = ("name", "team", "state", "priority", "submitted_at", "attempts", "evictions")
    list_filter = ("state", "team")
    list_select_related = ("team",)
    search_fields = ("name",)


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ("kind", "state", "progress", "started_by", "created_at", "finished_at")
    list_filter = ("kind", "state")
    list_select_related = ("started_by",)
    exclude = ("arguments",)


admin.site.register(Team, ReadOnly)
admin.site.register(Lease, ReadOnly)
admin.site.site_header = "MuxFlow"
admin.site.index_title = "Rows of the database, to look at"
