"""Has every process of a job that uses CUDA come under xCUDA? Pure.

The library is preloaded, so it is missing in static and musl programs, in a child whose
environment was cleared and in setuid programs. Such a process runs without any limit of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

# From the first sight of such a process. A slot is made before the first work on the GPU, so one
# that is this late will not come; a process between fork and exec has long passed on.
HANDSHAKE_S: Final = 5.0
CAUSES: Final = (
    "a static or musl program, a cleared LD_PRELOAD or environment, a setuid program, or a full"
    " table of 64 processes"
)


@dataclass(frozen=True, slots=True)
class Handshake:
    """Since when (monotonic seconds) each process, by pid, has used CUDA without a slot."""

    since: Mapping[int, float] = field(default_factory=dict)

    def coverage(self, covered: Collection[int]) -> tuple[int, int]:
        """Processes under xCUDA, of those that use CUDA."""
        return len(covered), len(covered) + len(self.since.keys() - set(covered))

    def overdue(self, now: float, deadline_s: float) -> str:
        """Why the job must not go on, "" while it may."""
        late = sorted(pid for pid, seen in self.since.items() if now - seen >= deadline_s)
        if not late:
            return ""
        return f"process {late[0]} uses CUDA and never came under xCUDA: {CAUSES}"


def step(
    before: Handshake, using: Collection[int], covered: Collection[int], now: float
) -> Handshake:
    """`using`: pids that use CUDA, as far as can be seen; `covered`: those that have a slot."""
    uncovered = set(using) - set(covered)
    since = {pid: before.since.get(pid, now) for pid in uncovered}
    return Handshake(since)
