"""PyTorch under a quota, with each of its allocators."""

from __future__ import annotations

import signal
import sys

from agents.control_block import Limits
from agents.wire.names import Phase
from tests.gpu.exits import MIB, expect_returned
from tests.gpu.figure import Figure, Missing, expect
from tests.gpu.limits import QUOTA_BYTES
from tests.gpu.machine import Machine, Step, process_of


def training(allocator: str) -> Step:
    """A training step as a CUDA graph, with one of PyTorch's allocators, stopped by SIGTERM."""

    def train(machine: Machine) -> Figure:
        _ = machine.device
        expect_torch(machine)
        checkpoint = machine.folder / "checkpoint.pt"
        checkpoint.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.gpu.training", str(QUOTA_BYTES), str(checkpoint)]
        free_before = machine.free_bytes()
        told = {"PYTORCH_CUDA_ALLOC_CONF": allocator, "PYTORCH_ALLOC_CONF": allocator}
        with (
            machine.block(Limits(memory_quota_bytes=QUOTA_BYTES)) as block,
            machine.start_program(command, block, told) as client,
        ):
            client.until_working()
            process = process_of(block, client)
            status = client.signal(signal.SIGTERM)
            phase = block.read_slots()[0].phase
            first, last = client.lines[0], client.last
        expect(first["total_bytes"] == QUOTA_BYTES, f"it sees {first['total_bytes']} bytes")
        expect(first["over_quota"] != "allowed", "it was given more than the quota")
        expect(process.unhooked == 0, f"{process.unhooked} unknown ABIs were passed on")
        expect((status, phase) == (0, Phase.RELEASED), f"it ended with {status} in {phase}")
        expect(checkpoint.exists() and "saved" in last, "its checkpoint is not there")
        expect_returned(machine, free_before)
        return Figure(
            f"{process.launches} kernels in {sum(process.used_bytes.values()) / MIB:.0f} MiB, "
            f"{first['over_quota']} over quota, checkpoint whole",
            first | last,
        )

    return train


def expect_torch(machine: Machine) -> None:
    """Raises Missing."""
    if machine.stub:
        raise Missing("PyTorch needs a real GPU")
    try:
        import torch
    except ImportError:
        raise Missing("no PyTorch in this Python (PYTHON=... make gpu-xcuda)") from None
    if not torch.cuda.is_available():
        raise Missing("this PyTorch has no CUDA")
