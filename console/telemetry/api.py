"""Live values for scripts and for the hover card: one GPU, and the whole fleet."""

from __future__ import annotations

import time
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import IsViewer, caller, in_sight
from console.inventory.models import Gpu
from console.telemetry import fleet, passport
from console.telemetry.models import FleetSample
from console.telemetry.passport import Passport
from console.telemetry.scales import Scale
from console.telemetry.sight import sight


class SignalSerializer(serializers.Serializer[Any]):
    """Numbers are in `unit`; null where missing, or where the policy sets no limit."""

    signal = serializers.CharField()
    name = serializers.CharField()
    unit = serializers.CharField()
    digits = serializers.IntegerField()
    value = serializers.FloatField(allow_null=True)
    most = serializers.FloatField(allow_null=True)
    busy_at = serializers.FloatField(allow_null=True)
    evict_at = serializers.FloatField(allow_null=True)
    slo = serializers.FloatField(allow_null=True)
    headroom = serializers.CharField()


class TenantSerializer(serializers.Serializer[Any]):
    service = serializers.CharField()
    tier = serializers.IntegerField()
    slo_p99_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    qps = serializers.FloatField(allow_null=True)
    over_slo = serializers.BooleanField()


class GuestSerializer(serializers.Serializer[Any]):
    placement = serializers.UUIDField()
    job = serializers.CharField()
    state = serializers.CharField()
    sm_share_percent = serializers.FloatField(allow_null=True)
    duty_percent = serializers.FloatField(allow_null=True)
    progress = serializers.FloatField(allow_null=True)
    xcuda_processes = serializers.IntegerField(allow_null=True)
    cuda_processes = serializers.IntegerField(allow_null=True)
    remarks = serializers.ListField(child=serializers.CharField())


class LiveGpuSerializer(serializers.Serializer[Any]):
    """The last sample of one GPU with its limits. `silence` says why it is not live, else ""."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    url = serializers.CharField()
    pool = serializers.CharField()
    model = serializers.CharField()
    mode = serializers.CharField()
    state = serializers.CharField()
    why = serializers.CharField()
    silence = serializers.CharField()
    age_s = serializers.FloatField(allow_null=True)
    headroom_percent = serializers.FloatField(allow_null=True)
    nearest_signal = serializers.CharField(allow_null=True)
    signals = SignalSerializer(many=True)
    online = TenantSerializer(allow_null=True)
    guest = GuestSerializer(allow_null=True)
    values = serializers.DictField(child=serializers.FloatField(allow_null=True))


class PoolSampleSerializer(serializers.ModelSerializer[FleetSample]):
    pool = serializers.CharField(source="pool.name")

    class Meta:
        model = FleetSample
        exclude = ("id",)


class FleetSerializer(serializers.Serializer[Any]):
    """The fleet now, as far as the caller sees it. Means are over the live GPUs that report the
    signal; null: none does."""

    at = serializers.FloatField()
    age_s = serializers.FloatField(allow_null=True)
    gpus = serializers.IntegerField()
    live = serializers.IntegerField()
    states = serializers.DictField(child=serializers.IntegerField())
    looks = serializers.DictField(child=serializers.IntegerField())
    sm_activity = serializers.FloatField(allow_null=True)
    gpu_util = serializers.FloatField(allow_null=True)
    memory = serializers.FloatField(allow_null=True)
    p99_ratio = serializers.FloatField(allow_null=True)
    services = serializers.IntegerField()
    services_over_slo = serializers.IntegerField()
    sharing = serializers.IntegerField()
    guests = serializers.IntegerField()
    running = serializers.IntegerField()
    queued = serializers.IntegerField()
    pending_evictions = serializers.IntegerField()
    evictions_total = serializers.IntegerField()
    freezes_total = serializers.IntegerField()
    pools = PoolSampleSerializer(many=True)


@extend_schema(responses=FleetSerializer)
@api_view(["GET"])
@permission_classes([IsViewer])
def fleet_now(request: Request) -> Response:
    """The fleet in numbers, as the live pages show it, and each pool's last sample: of the pools
    that the caller sees."""
    samples = in_sight(FleetSample.objects.all(), caller(request), "pool")
    seen = fleet.summary_now(time.time(), sight(caller(request)))
    body = seen | {"pools": fleet.last_samples(samples)}
    return Response(FleetSerializer(body).data)


@extend_schema(responses=LiveGpuSerializer)
@api_view(["GET"])
@permission_classes([IsViewer])
def gpu_live(request: Request, gpu_id: int) -> Response:
    """The last sample of one GPU, its limits, its online tenant and its offline guest."""
    try:
        known = passport.load(gpu_id, caller(request), timezone.now())
    except Gpu.DoesNotExist:
        raise Http404 from None
    return Response(LiveGpuSerializer(_describe(known)).data)


def _describe(known: Passport) -> dict[str, Any]:
    gpu, live = known.gpu, known.live
    return {
        "id": gpu.pk,
        "name": str(gpu),
        "url": reverse("gpu", args=[gpu.pk]),
        "pool": gpu.node.pool.name,
        "model": gpu.model,
        "mode": known.mode,
        "state": known.state,
        "why": gpu.state_why,
        "silence": known.silence,
        "age_s": live and round(live.age_s, 2),
        "headroom_percent": live and live.headroom_percent,
        "nearest_signal": live and live.nearest_signal,
        "signals": [_signal(known, scale) for scale in known.scales],
        "online": _tenant(known),
        "guest": _guest(known),
        "values": values(known),
    }


def values(known: Passport) -> dict[str, float | None]:
    """What the charts and limits of the page follow, in wire units."""
    live = known.live
    names = (
        "sm_online_percent",
        "sm_offline_percent",
        "duty_percent",
        "online_memory_bytes",
        "offline_memory_bytes",
        "online_qps",
    )
    fresh = live if live is not None and live.is_live else None
    return {name: getattr(fresh, name, None) for name in names}


def _signal(known: Passport, scale: Scale) -> dict[str, Any]:
    wire_value = known.live.signal(scale.signal) if known.live else None
    return {
        "signal": scale.signal,
        "name": scale.name,
        "unit": scale.unit,
        "digits": scale.digits,
        "value": scale.shown(wire_value),
        "most": scale.most,
        "busy_at": scale.busy_at,
        "evict_at": scale.evict_at,
        "slo": scale.slo,
        "headroom": scale.headroom(wire_value, known.is_idle),
    }


def _tenant(known: Passport) -> dict[str, Any] | None:
    if known.instance is None:
        return None
    service, live = known.instance.service, known.live
    return {
        "service": service.name,
        "tier": service.tier,
        "slo_p99_ms": service.slo_p99_ms,
        "p99_ms": live and live.online_p99_ms,
        "qps": live and live.online_qps,
        "over_slo": known.over_slo,
    }


def _guest(known: Passport) -> dict[str, Any] | None:
    guest = known.guest
    if guest is None:
        return None
    return {
        "placement": guest.pk,
        "job": guest.job.name,
        "state": guest.state,
        "sm_share_percent": guest.effective_sm_share_percent,
        "duty_percent": known.live.duty_percent if known.live else guest.effective_duty_percent,
        "progress": guest.progress,
        "xcuda_processes": guest.xcuda_processes,
        "cuda_processes": guest.cuda_processes,
        "remarks": guest.remarks,
    }
