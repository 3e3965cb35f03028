"""Whether the GPU that a job is to move to still takes it."""

from __future__ import annotations

from agents.wire.names import GpuState, SharingMode
from console.inventory import modes
from console.inventory.models import Gpu, Node


def why_closed(gpu: Gpu) -> str:
    """The first fact that keeps `gpu` from taking a job, for longer than a busy moment; "": none.

    Select `node__pool` with it.
    """
    node = gpu.node
    mode = modes.lower(node.pool.sharing_mode, gpu.sharing_mode)
    facts = (
        (gpu.retired_at is not None, "the card was replaced"),
        (gpu.disabled, f"it was disabled: {gpu.disabled_reason or 'no reason given'}"),
        (gpu.state == GpuState.DISABLED, "its hardware is suspect"),
        (gpu.conflict, "another node claims its UUID"),
        (bool(gpu.unshareable_fact), gpu.unshareable_fact),
        (mode is not SharingMode.ENFORCE, f"its sharing mode is {mode}"),
        (node.draining, f"{node} is being drained"),
        (node.cordoned, f"{node} is cordoned"),
        (node.state == Node.State.LOST, f"{node} is lost"),
    )
    return next((fact for holds, fact in facts if holds), "")
