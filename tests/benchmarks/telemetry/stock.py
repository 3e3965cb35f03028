"""Settings of the straightforward design: Django and Channels as they come."""

from __future__ import annotations

SECRET_KEY = "only-for-a-measurement"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels.layers.InMemoryChannelLayer",
        "CONFIG": {"capacity": 10_000},
    }
}
