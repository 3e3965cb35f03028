"""What a fatal code on a shared GPU calls for. Pure.

Codes come from the processes of our own jobs (through xCUDA), from the driver (XIDs) and from the
state of the MPS server. The gravest holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agents.mps.health import ServerState
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS


class Remedy(StrEnum):
    """From mild to grave; the gravest of several holds."""

    NOTHING = "nothing"
    WAIT_ACTIVE = "the server is not ready for new clients: wait, and start nothing"
    RESTART_JOB = "the offline job failed by itself: it may be tried again, after its back-off"
    EVICT_ALL = "all offline work leaves the GPU; its clients may have been hit"
    RECOVER = "the server is at fault: offline ends at once, online is restarted"
    QUARANTINE = "the hardware is suspect: nothing runs here until a person says otherwise"


GRAVITY: Final = tuple(Remedy)

# CUDA's codes (cuda.h) that a client reports, by what we do. What is not listed is the job's own
# affair: out of memory, an invalid argument and the like. A code is no more than the word of a job,
# which writes its own slots: that hardware is suspect takes the driver's, an XID.
CUDA_CODES: Final[Mapping[int, tuple[Remedy, str]]] = {
    214: (Remedy.EVICT_ALL, "an uncorrectable memory error, by the word of the process"),
    220: (Remedy.EVICT_ALL, "an uncorrectable NVLink error, by the word of the process"),
    226: (Remedy.EVICT_ALL, "a contained hardware error that ended the context"),
    700: (Remedy.RECOVER, "an illegal address"),
    702: (Remedy.RECOVER, "a kernel that ran into the time limit"),
    710: (Remedy.RECOVER, "a failed assertion in a kernel"),
    714: (Remedy.RECOVER, "a hardware stack error"),
    715: (Remedy.RECOVER, "an illegal instruction"),
    716: (Remedy.RECOVER, "a misaligned address"),
    717: (Remedy.RECOVER, "an instruction on the wrong address space"),
    718: (Remedy.RECOVER, "an invalid program counter"),
    719: (Remedy.RECOVER, "an exception in a kernel"),
    721: (Remedy.RECOVER, "a kernel that left tensor memory allocated"),
    805: (Remedy.RESTART_JOB, "no connection to the MPS daemon"),
    806: (Remedy.EVICT_ALL, "the MPS server was lost or cannot be spoken to"),
    807: (Remedy.WAIT_ACTIVE, "the MPS server takes no new client now"),
    808: (Remedy.RESTART_JOB, "no room for another MPS client"),
    809: (Remedy.RESTART_JOB, "no connection left for another MPS client"),
    810: (Remedy.NOTHING, "the client was ended by terminate_client, as it was told to"),
    911: (Remedy.RESTART_JOB, "an error of another device that the process works with"),
}
# A job that is hit by these has done nothing wrong, if they are true.
HARDWARE_CODES: Final = frozenset({214, 220})
# Beside the hardware XIDs and those that reach every client (`sysmonitor.signals`): the end of
# one process's channels, which is its own affair.
JOB_XIDS: Final = frozenset({8, 43})
STATES: Final[Mapping[ServerState, Remedy]] = {
    ServerState.FAULT: Remedy.RECOVER,
    ServerState.INITIALIZING: Remedy.WAIT_ACTIVE,
    ServerState.SILENT: Remedy.WAIT_ACTIVE,
    ServerState.UNKNOWN: Remedy.WAIT_ACTIVE,
    ServerState.NO_DAEMON: Remedy.WAIT_ACTIVE,
    ServerState.NO_SERVER: Remedy.NOTHING,
    ServerState.ACTIVE: Remedy.NOTHING,
}


def remedy(
    state: ServerState, cuda_code: int | None = None, xid: float | None = None
) -> tuple[Remedy, str]:
    """What the gravest of the three calls for, and why. The code of a kernel's fault without a
    server at fault has, as far as MPS knows, reached nobody else: then offline work leaves, and
    nothing is to be recovered."""
    found = [(STATES[state], f"MPS: {state}"), _of_cuda(cuda_code, state), _of_xid(xid)]
    return max(found, key=lambda one: GRAVITY.index(one[0]))


def _of_cuda(code: int | None, state: ServerState) -> tuple[Remedy, str]:
    what, words = CUDA_CODES.get(code or 0, (Remedy.NOTHING, "no error that concerns others"))
    if what is Remedy.RECOVER and state is not ServerState.FAULT:
        what = Remedy.EVICT_ALL
    return what, f"CUDA error {code}: {words}"


def _of_xid(xid: float | None) -> tuple[Remedy, str]:
    if xid in HARDWARE_XIDS:
        return Remedy.QUARANTINE, f"XID {xid:.0f}: the hardware is suspect"
    if xid in FAULT_XIDS:
        return Remedy.EVICT_ALL, f"XID {xid:.0f}: a client of this GPU faulted"
    return (Remedy.RESTART_JOB if xid in JOB_XIDS else Remedy.NOTHING), f"XID {xid}"


@dataclass(frozen=True, slots=True)
class Call:
    """What a code calls for on a GPU whose server is well, until no offline process is left.
    `code`: the process's own, None where an XID told of it."""

    remedy: Remedy
    why: str
    code: int | None = None


# The others are what the state of the server calls for by itself, or nothing.
CALLS: Final = frozenset({Remedy.RESTART_JOB, Remedy.EVICT_ALL, Remedy.QUARANTINE})


def called(
    before: Call | None,
    state: ServerState,
    cuda_codes: Iterable[int],
    xids: Iterable[float],
    *,
    offline_gone: bool,
) -> Call | None:
    """The gravest of what was called for already and of the codes that have come since; None when
    nothing is to be done, or is done."""
    found = [
        *(Call(*remedy(state, cuda_code=code), code) for code in cuda_codes),
        *(Call(*remedy(state, xid=xid)) for xid in xids),
    ]
    calls = [call for call in found if call.remedy in CALLS]
    if before is not None and not offline_gone:
        calls.insert(0, before)
    return max(calls, key=lambda call: GRAVITY.index(call.remedy), default=None)
