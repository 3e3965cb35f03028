"""Where the profile of a job comes from, and what one job measured that holds for others."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings

from console.workloads.models import OfflineJob
from console.workloads.profiles import Profile

Source = OfflineJob.ProfileSource

SEVERAL_GPUS: Final = "a job of several GPUs is not measured"
_COPIED: Final = (
    *Profile.__dataclass_fields__, "profile_gpu_model", "profile_measured_at",
)  # fmt: skip


def of_one_like(key: str, now: datetime) -> dict[str, Any] | None:
    """The columns of a profile that a job of this template measured, the newest that is not too
    old; None without any."""
    return of_ones_like([key], now).get(key) if key else None


def of_ones_like(keys: Collection[str], now: datetime) -> dict[str, dict[str, Any]]:
    """The same for several templates; one query, none without any."""
    if not keys:
        return {}
    since = now - timedelta(days=settings.PROFILE_MAX_AGE_DAYS)
    measured = OfflineJob.objects.filter(
        profile_key__in=keys, profile_source=Source.MEASURED, profile_measured_at__gte=since
    )
    return {job.profile_key: _copied(job) for job in measured.order_by("profile_measured_at")}


def _copied(job: OfflineJob) -> dict[str, Any]:
    same = {name: getattr(job, name) for name in _COPIED}
    return {**same, "profile_source": Source.HISTORY, "profile_why": f"on {job.name}"[:200]}


def of_measurement(profile: Profile, gpu_model: str, where: str, now: datetime) -> dict[str, Any]:
    """The columns of a profile that was measured just now."""
    return {
        **profile.columns(),
        "profile_source": Source.MEASURED,
        "profile_gpu_model": gpu_model[:80],
        "profile_measured_at": now,
        "profile_why": f"on {where}"[:200],
    }
