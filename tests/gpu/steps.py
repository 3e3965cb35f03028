"""The steps, in their order."""

from __future__ import annotations

from tests.gpu.exits import exits, kill, terminate
from tests.gpu.figure import Figure
from tests.gpu.habits import habits
from tests.gpu.limits import GIB, cost, duty, freeze, neighbours, quota, rate
from tests.gpu.machine import Machine, Step
from tests.gpu.pytorch import training
from tests.gpu.resolution import resolve, runtime


def build(machine: Machine) -> Figure:
    machine.build()
    return Figure(f"{machine.library.name}, {machine.library.stat().st_size // 1024} KiB")


def find_device(machine: Machine) -> Figure:
    it = machine.device
    cuda = f"{it['cuda'] // 1000}.{it['cuda'] % 1000 // 10}"
    return Figure(f"{it['name']}, {it['total_bytes'] / GIB:.0f} GiB, CUDA {cuda}", it)


def start_mps(machine: Machine) -> Figure:
    """From here on every client is one of MPS, where it can be had."""
    _ = machine.device
    machine.start_mps()
    free = machine.free_bytes()
    return Figure("every client from here on is one of MPS", {"free_bytes": free})


STEPS: dict[str, Step] = {
    "build": build,
    "device": find_device,
    "mps": start_mps,
    "habits": habits,
    "resolve": resolve,
    "runtime": runtime,
    "quota": quota,
    "cost": cost,
    "rate": rate,
    "duty": duty,
    "freeze": freeze,
    "neighbours": neighbours,
    "exits": exits,
    "torch graphs": training("backend:native"),
    "torch async": training("backend:cudaMallocAsync"),
    "torch segments": training("expandable_segments:True"),
    "terminate": terminate,
}
LAST: dict[str, Step] = {"kill": kill}  # may leave the GPU's clients dead
