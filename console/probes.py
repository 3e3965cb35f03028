"""Is this process alive, and can it do its work?"""

from __future__ import annotations

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse

from console.telemetry.hub import hub


def healthz(request: HttpRequest) -> JsonResponse:
    """200 while this web process lives."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """200 when the database and Redis answer and this process knows the fleet, else 503 with the
    names of what is missing."""
    failures = {name: text for name, text in [_database(), _redis(), _fleet()] if text}
    return JsonResponse(
        {"status": "not ready" if failures else "ok", "failures": failures},
        status=503 if failures else 200,
    )


def _fleet() -> tuple[str, str]:
    """Where no hub runs, whoever asks for live data reads it from Redis."""
    if hub.is_running and not hub.knows_the_fleet:
        return "fleet", "this process has just begun and has not read yet what others know"
    return "fleet", ""


def _database() -> tuple[str, str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return "database", str(error)
    return "database", ""


def _redis() -> tuple[str, str]:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        client.ping()
    except redis.RedisError as error:
        return "redis", str(error)
    finally:
        client.close()
    return "redis", ""
