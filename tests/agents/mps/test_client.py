from __future__ import annotations

from pathlib import Path

import pytest

from agents.mps import client, unit
from agents.mps.client import CONTEXT_BYTES, MIB, ClientLimits

PLACE = unit.place_of("GPU-1", Path("/var/lib/mps"))
GIB = 1 << 30


def test_a_client_gets_its_limits_below_normal_priority():
    told = client.environment(PLACE, ClientLimits(37.5, 8 * GIB))
    assert told == {
        "CUDA_MPS_PIPE_DIRECTORY": "/var/lib/mps/GPU-1/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/var/lib/mps/GPU-1/log",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "37.5",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={(8 * GIB + CONTEXT_BYTES) // MIB}M",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }


def test_two_processes_of_a_job_do_not_get_twice():
    told = client.environment(PLACE, ClientLimits(40, 8 * GIB, processes=2))
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "20"
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={(4 * GIB + CONTEXT_BYTES) // MIB}M"


@pytest.mark.parametrize(
    "limits",
    [
        ClientLimits(0, GIB),
        ClientLimits(101, GIB),
        ClientLimits(50, 0),
        ClientLimits(50, GIB, processes=0),
    ],
)
def test_limits_that_are_none_are_refused(limits):
    with pytest.raises(ValueError, match=r"percentage|no limits"):
        client.environment(PLACE, limits)
