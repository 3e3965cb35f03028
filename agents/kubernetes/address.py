"""Which addresses of an API a token may be sent to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

IN_CLUSTER: Final = "in-cluster"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def is_safe(url: str) -> bool:
    """https://, or http:// to this machine alone; without a path."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if not parts.hostname or port == 0 or parts.path not in ("", "/") or parts.query:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def in_cluster(environment: Mapping[str, str]) -> str:
    """The one that the kubelet gives each pod, "" outside of a pod."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return ""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
