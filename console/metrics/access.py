"""Who may read the metrics: they name nodes, services and what runs where. Pure."""

from __future__ import annotations

import hmac
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """Why not, as an HTTP answer. `challenge` is what `WWW-Authenticate` says."""

    status: int
    sentence: str
    challenge: str = ""


CLOSED = Refusal(
    403, "The metrics are closed: set MUXFLOW_METRICS_TOKEN, and give it to Prometheus."
)
UNKNOWN = Refusal(
    401,
    "Send the scrape token (MUXFLOW_METRICS_TOKEN) as `Authorization: Bearer …`.",
    'Bearer realm="muxflow metrics"',
)


def refusal(authorization: str | None, token: str) -> Refusal | None:
    """None for those who bring the token. Without a token nobody does."""
    if not token:
        return CLOSED
    scheme, _, brought = (authorization or "").partition(" ")
    knows = hmac.compare_digest(brought.strip().encode(), token.encode())
    return None if scheme.lower() == "bearer" and knows else UNKNOWN
