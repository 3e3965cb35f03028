"""The two WebSockets: agents and browsers."""

from __future__ import annotations

from channels.auth import AuthMiddlewareStack
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import URLPattern, path

from console.telemetry.feed import BrowserFeed
from console.telemetry.gateway import AgentGateway

websocket_urlpatterns: list[URLPattern] = [
    path("ws/agent/", AgentGateway.as_asgi()),
    # A page of another site must not read the feed with a visitor's cookie.
    path("ws/live/", AllowedHostsOriginValidator(AuthMiddlewareStack(BrowserFeed.as_asgi()))),
]
