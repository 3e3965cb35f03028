from __future__ import annotations

import pytest

from agents.mps import remedies
from agents.mps.health import ServerState
from agents.mps.remedies import CUDA_CODES, Call, Remedy, called
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS

ACTIVE, FAULT = ServerState.ACTIVE, ServerState.FAULT


@pytest.mark.parametrize(
    ("state", "cuda", "xid", "remedy"),
    [
        (ACTIVE, None, None, Remedy.NOTHING),
        (ACTIVE, 2, None, Remedy.NOTHING),
        (ACTIVE, 810, None, Remedy.NOTHING),
        (ACTIVE, 808, None, Remedy.RESTART_JOB),
        (ACTIVE, None, 43, Remedy.RESTART_JOB),
        (ACTIVE, 807, None, Remedy.WAIT_ACTIVE),
        (ACTIVE, 806, None, Remedy.EVICT_ALL),
        (ACTIVE, 700, None, Remedy.EVICT_ALL),
        (FAULT, 700, None, Remedy.RECOVER),
        (FAULT, None, None, Remedy.RECOVER),
        (ServerState.INITIALIZING, None, None, Remedy.WAIT_ACTIVE),
        (ServerState.NO_DAEMON, None, None, Remedy.WAIT_ACTIVE),
        (FAULT, 214, None, Remedy.RECOVER),
        # A job's own word puts no GPU under quarantine: it can write any code into its slots.
        (ACTIVE, 214, None, Remedy.EVICT_ALL),
        (ACTIVE, 220, None, Remedy.EVICT_ALL),
        (ACTIVE, 214, 48, Remedy.QUARANTINE),
        (FAULT, 719, 79, Remedy.QUARANTINE),
        (ServerState.NO_SERVER, 700, None, Remedy.EVICT_ALL),
    ],
)
def test_the_gravest_of_state_code_and_xid_holds(state, cuda, xid, remedy):
    assert remedies.remedy(state, cuda, xid)[0] is remedy


@pytest.mark.parametrize("xid", HARDWARE_XIDS | FAULT_XIDS)
def test_an_xid_means_here_what_it_means_to_sysmonitor(xid):
    hardware = xid in HARDWARE_XIDS
    wanted = Remedy.QUARANTINE if hardware else Remedy.EVICT_ALL
    assert remedies.remedy(ACTIVE, xid=xid)[0] is wanted


def test_every_code_is_explained():
    for code in CUDA_CODES:
        what, why = remedies.remedy(ACTIVE, code)
        assert what is Remedy.NOTHING or f"CUDA error {code}: " in why


@pytest.mark.parametrize(
    ("state", "codes", "xids", "remedy"),
    [
        (ACTIVE, [], [], None),
        (ACTIVE, [810, 2, 807], [0.0, 45.0], None),
        (ACTIVE, [808], [], Remedy.RESTART_JOB),
        (ACTIVE, [], [43.0], Remedy.RESTART_JOB),
        (ACTIVE, [808, 700], [43.0], Remedy.EVICT_ALL),
        (ACTIVE, [700, 214], [], Remedy.EVICT_ALL),
        # What a job gets of a daemon that is gone is its own end, not a wait.
        (ServerState.NO_DAEMON, [805], [], Remedy.RESTART_JOB),
        (ServerState.SILENT, [], [43.0], Remedy.RESTART_JOB),
        # A server at fault is recovered, whatever its clients say; hardware is hardware.
        (FAULT, [700, 808], [], None),
        (FAULT, [700, 214], [79.0], Remedy.QUARANTINE),
    ],
)
def test_the_gravest_code_is_heeded(state, codes, xids, remedy):
    call = called(None, state, codes, xids, offline_gone=False)
    assert (call and call.remedy) == remedy


def test_a_call_holds_until_offline_work_is_gone_and_only_a_graver_one_replaces_it():
    call = Call(Remedy.EVICT_ALL, "an illegal address")
    assert called(call, ACTIVE, [], [], offline_gone=False) is call
    assert called(call, ACTIVE, [808], [], offline_gone=False) is call
    assert called(call, ACTIVE, [214], [], offline_gone=False) is call
    assert called(call, ACTIVE, [], [48.0], offline_gone=False).remedy is Remedy.QUARANTINE
    assert called(call, ACTIVE, [], [], offline_gone=True) is None
