"""GPUs and views of their MPS, as the decisions are shown them."""

from __future__ import annotations

from dataclasses import replace

from agents.mps.health import ServerState, Snapshot
from agents.mps.shareable import CardFacts, OnlineProcess, Sharing

GIB = 1 << 30
UUID = "GPU-cb1213a3-d6a4-be7f-0000-000000000001"
ONLINE = OnlineProcess(4711, 1000, "python", mps=True)
CARD = CardFacts(
    UUID,
    "595.71.05",
    mig=False,
    capability=(9, 0),
    compute_mode="default",
    memory_bytes=80 * GIB,
    used_bytes=30 * GIB,
    sm_activity_source="gpm",
    online=(ONLINE,),
)
MPS = Snapshot(
    at=0.0,
    state=ServerState.ACTIVE,
    daemon_pid=100,
    server_pid=200,
    server_uid=1000,
    multiuser=False,
    client_pids=frozenset({4711}),
)


def sharing(card=None, mps=None, **fields):
    """A GPU that may be shared, but for what is said."""
    return Sharing(replace(CARD, **(card or {})), replace(MPS, **(mps or {})), **fields)
