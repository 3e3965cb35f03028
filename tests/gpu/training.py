"""A small PyTorch training under xCUDA: `python -m tests.gpu.training QUOTA_BYTES CHECKPOINT`.

Trains as a CUDA graph, asks for more than the quota, and goes on training until SIGTERM. Then it
saves at the end of its step, as trainers do, and ends by itself. Says what it sees as JSON lines.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

stopped = False


def stop(number: int, frame: object) -> None:
    global stopped
    stopped = True


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def main(quota_bytes: int, checkpoint: Path) -> None:
    signal.signal(signal.SIGTERM, stop)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(256, 1024, device="cuda")
    step = captured(lambda: train(model, optimizer, batch), optimizer)
    say(
        total_bytes=torch.cuda.mem_get_info()[1],
        backend=torch.cuda.get_allocator_backend(),
        over_quota=ask_too_much(quota_bytes),
    )
    done = 0
    while not stopped:
        step()
        done += 1
        if done % 20 == 0:
            torch.cuda.synchronize()
            say(done=done)
    save(model, checkpoint, done)
    say(saved=done)


def train(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def captured(step: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> Any:
    """The step as a graph, after the warm-up on a stream of its own that a capture needs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def ask_too_much(quota_bytes: int) -> str:
    try:
        torch.empty(quota_bytes, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        return type(error).__name__
    return "allowed"


def save(model: torch.nn.Module, checkpoint: Path, done: int) -> None:
    part = checkpoint.with_suffix(".part")
    torch.save({"model": model.state_dict(), "steps": done}, part)
    part.replace(checkpoint)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
