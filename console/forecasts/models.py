"""What online work used of every GPU, bin by bin: what forecasts are made from."""

from __future__ import annotations

from django.db import models


class OnlineBin(models.Model):
    """Mean online SM activity of the whole fleet over `period_s`; a row for each bin that was seen.

    `number` is the time of the world clock over the period. `values` has one byte a GPU, at the
    place of its id, as `console.forecasts.packing` says; so one row is 20 KB at 20,000 GPUs.
    """

    period_s = models.PositiveIntegerField()
    number = models.BigIntegerField()
    values = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["period_s", "number"], name="one_online_bin")
        ]

    def __str__(self) -> str:
        return f"bin {self.number} of {self.period_s} s"
