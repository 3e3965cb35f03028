"""The web process: HTTP through Django, agents and browsers through WebSockets."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

from django.core.asgi import get_asgi_application

# Loads the apps: consumers import models, so this comes first.
http = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from console.metrics import web  # noqa: E402
from console.telemetry.lifespan import lifespan  # noqa: E402
from console.telemetry.routing import websocket_urlpatterns  # noqa: E402

web.watch()
application = ProtocolTypeRouter(
    {"http": http, "websocket": URLRouter(websocket_urlpatterns), "lifespan": lifespan}
)
