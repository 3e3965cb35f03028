"""Facts of the GPU models that simulated clusters are made of, from their public data sheets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuModel:
    name: str
    memory_bytes: int
    sm_clock_max_mhz: float
    power_limit_w: float
    pcie_max_bytes_s: float


MODELS: Final[dict[str, GpuModel]] = {
    model.name: model
    for model in (
        GpuModel("NVIDIA A100-SXM4-80GB", 81_920 * _MIB, 1_410.0, 400.0, 31.5e9),
        GpuModel("NVIDIA A100-SXM4-40GB", 40_960 * _MIB, 1_410.0, 400.0, 31.5e9),
        GpuModel("NVIDIA H100 80GB HBM3", 81_559 * _MIB, 1_980.0, 700.0, 63.0e9),
        GpuModel("NVIDIA A10", 23_028 * _MIB, 1_695.0, 150.0, 31.5e9),
    )
}


def model_of(name: str) -> GpuModel:
    """The facts of a model; an unknown one is taken for an A100 of 80 GB."""
    return MODELS.get(name, MODELS["NVIDIA A100-SXM4-80GB"])
