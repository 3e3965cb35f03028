"""The kept bins: one row each while they are fine, one an hour for the seasons.

Fine bins are kept for as long as forecasts look back at them, hours for four weeks: 20 MB at
20,000 GPUs, whatever happens.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from django.db.models import BinaryField, F, Func

from console.forecasts.models import OnlineBin
from console.forecasts.packing import MISSING, Bytes, packed, unpacked
from console.forecasts.series import BIN_S, BINS, HOUR_S, HOURS, Floats

PER_HOUR: Final = HOUR_S // BIN_S
# A mean over fewer bins says little of an hour.
_LEAST_PER_HOUR: Final = 3


def keep(number: int, percent: Floats) -> None:
    """The bin that has ended, by GPU id; and its hour, when that has ended too. Old rows go."""
    _keep(BIN_S, number, percent)
    hour = (number + 1) // PER_HOUR - 1
    hours = OnlineBin.objects.filter(period_s=HOUR_S)
    if not hours.filter(number=hour).exists():
        _keep(
            HOUR_S, hour, _mean(read(BIN_S, hour * PER_HOUR, (hour + 1) * PER_HOUR, len(percent)))
        )
        hours.filter(number__lte=hour - HOURS).delete()
    OnlineBin.objects.filter(period_s=BIN_S, number__lte=number - BINS - PER_HOUR).delete()


def read(period_s: int, first: int, end: int, width: int) -> Bytes:
    """[end − first, width]: the bins from `first` to before `end`, for GPU ids below `width`."""
    steps = np.full((end - first, width), MISSING, np.uint8)
    rows = OnlineBin.objects.filter(period_s=period_s, number__gte=first, number__lt=end)
    for number, values in rows.values_list("number", "values").iterator(chunk_size=64):
        row = np.frombuffer(values, np.uint8)[:width]
        steps[number - first, : len(row)] = row
    return steps


def of_gpu(gpu_id: int, first: int, end: int) -> Bytes:
    """[end − first]: the fine bins of one GPU; its byte of each row, not the row, is read."""
    byte = Func(F("values"), gpu_id + 1, 1, function="substr", output_field=BinaryField())
    rows = OnlineBin.objects.filter(period_s=BIN_S, number__gte=first, number__lt=end)
    steps = np.full(end - first, MISSING, np.uint8)
    for number, value in rows.annotate(byte=byte).values_list("number", "byte"):
        if len(value):
            steps[number - first] = bytes(value)[0]
    return steps


def _keep(period_s: int, number: int, percent: Floats) -> None:
    """The first to come is kept."""
    OnlineBin.objects.get_or_create(
        period_s=period_s, number=number, defaults={"values": packed(percent).tobytes()}
    )


def _mean(steps: Bytes) -> Floats:
    known = steps != MISSING
    count = known.sum(axis=0)
    total = np.where(known, unpacked(steps), 0.0).sum(axis=0)
    mean = np.where(count >= _LEAST_PER_HOUR, total / np.maximum(count, 1), np.nan)
    return mean.astype(np.float32)
