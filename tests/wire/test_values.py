"""What no column of a database holds never gets past the decoder."""

from __future__ import annotations

import math
import time

import pytest

from agents.wire import codec
from agents.wire.limits import MAX_TEXT_CHARS
from agents.wire.messages import GpuInventory, GpuStatus, Hello, PlacementStatus, Status
from agents.wire.names import GpuState, PlacementState, RuntimeKind


def a_hello(**facts) -> Hello:
    card = {"index": 0, "uuid": "GPU-1", "model": "A100", "memory_bytes": 1 << 36, **facts}
    return Hello("node-01", (1, 1), "0.1", "boot", 0, "n", RuntimeKind.SIMULATED,
                 (GpuInventory(**card),))  # fmt: skip


def a_status(gpu=None, placement=None, **facts) -> Status:
    card = GpuStatus(0, GpuState.HEALTHY, **{"since": time.time(), **(gpu or {})})
    guest = PlacementStatus("p", PlacementState.RUNNING, **(placement or {}))
    basic = {"nonce": "n", "observed_generation": 1, "policy_versions": {}}
    return Status(**basic | facts, gpus=(card,), placements=(guest,))


@pytest.mark.parametrize("message", [a_hello(), a_status(), a_status(placement={"progress": 0.5})])
def test_what_can_be_passes_unchanged(message):
    assert codec.decode_from_agent(codec.encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        a_hello(memory_bytes=1 << 63),
        a_hello(power_limit_w=1e308),
        a_hello(sm_clock_max_mhz=math.nan),
        a_hello(model="A\x00100"),
        a_hello(uuid="u" * 10_000),
        a_status(observed_generation=1 << 63),
        a_status(policy_versions={"a\x00": 1}),
        a_status(policy_versions={"a": 1 << 63}),
        a_status(refused="x" * (MAX_TEXT_CHARS + 1)),
        a_status(gpu={"since": math.inf}),
        a_status(gpu={"why": "\x00"}),
        a_status(gpu={"degraded": ("\x00",)}),
        a_status(placement={"progress": math.inf}),
        a_status(placement={"normalised_throughput": math.nan}),
        a_status(placement={"memory_bytes": 1 << 63}),
    ],
)
def test_what_cannot_be_is_refused(message):
    with pytest.raises(codec.WireError):
        codec.decode_from_agent(codec.encode(message))
