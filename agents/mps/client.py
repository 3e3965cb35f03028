"""What makes a process a client of the GPU's MPS server, with its limits. Pure.

The share and the pinned memory limit are fixed when the client starts and can only be lowered by
it; a new share needs a new process. They are the backstop of xCUDA's own limits: whatever gets
around the library still meets these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agents.mps.answers import checked_percentage
from agents.mps.control import Place

MIB: Final = 1 << 20
BELOW_NORMAL: Final = 1
# Context, modules and the runtime's own memory of one process, which the limit of MPS counts and
# the quota of a job does not: an estimate for one process of today's frameworks, our choice.
CONTEXT_BYTES: Final = 600 * MIB


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Of one job. Offline work always runs below normal priority, which is only a hint."""

    sm_share_percent: float
    memory_quota_bytes: int
    processes: int = 1


def environment(place: Place, limits: ClientLimits) -> dict[str, str]:
    """The variables of each process of the job. A job of several processes shares one share and
    one quota: the limits of MPS are per process, so each gets its part. Raises ValueError."""
    if limits.processes < 1 or limits.memory_quota_bytes < MIB:
        raise ValueError(f"no limits for {limits.processes} processes can be made of {limits}")
    share = checked_percentage(limits.sm_share_percent) / limits.processes
    quota_bytes = limits.memory_quota_bytes // limits.processes + CONTEXT_BYTES
    return place.environment() | {
        "CUDA_VISIBLE_DEVICES": place.gpu_uuid,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{share:g}",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={quota_bytes // MIB}M",
        "CUDA_MPS_CLIENT_PRIORITY": str(BELOW_NORMAL),
    }
