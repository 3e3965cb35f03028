"""How a GPU rounds an SM share. Pure.

MPS limits a client to a portion of the threads of a GPU, "rounded to what the hardware supports"
(CUDA documentation, Multi-Process Service); which way is not told. Assumed here: a client gets
whole pairs of SMs (the TPC, the smallest unit that is scheduled as one on every model below). So a
share is asked for that is a whole number of pairs to begin with, and rounding cannot add to it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import numpy as np

from workers.prediction.profiles import Floats

SMS_PER_TPC: Final = 2
# A share is asked for in tenths of a percent, upwards, so that cutting off loses no SM.
_TENTHS: Final = 10.0

# Streaming multiprocessors of each product, from the vendor's data sheets and architecture papers.
SMS: Final = {
    "V100": 80,
    "T4": 40,
    "A2": 10,
    "A10": 72,
    "A30": 56,
    "A40": 84,
    "A6000": 84,
    "A100": 108,
    "A800": 108,
    "L4": 58,
    "L40": 142,
    "L40S": 142,
    "H100": 132,
    "H800": 132,
    "H200": 132,
    "GH200": 132,
}
_H100_PCIE: Final = 114


@lru_cache(maxsize=256)
def sms_of(gpu_model: str) -> int | None:
    """The SMs of a card by the name its driver tells; None: not known, its share is not rounded."""
    words = re.split(r"[\s:-]+", gpu_model)
    found = next((SMS[word] for word in words if word in SMS), None)
    return _H100_PCIE if found == SMS["H100"] and "PCIe" in words and "H100" in words else found


def whole(share_percent: Floats, gpu_model: tuple[str, ...]) -> Floats:
    """The largest shares of whole TPCs that are not above `share_percent`, in tenths of a percent.

    Shares must be whole tenths themselves. Where the model is not known they stay as they are.
    """
    sms = np.array([sms_of(model) or np.nan for model in gpu_model])
    tpcs = np.floor(share_percent * sms / 100.0 / SMS_PER_TPC + 1e-9)
    asked = np.ceil(tpcs * SMS_PER_TPC / sms * 100.0 * _TENTHS - 1e-9) / _TENTHS
    return np.where(np.isnan(sms), share_percent, asked)
