"""What online work used of every GPU, bin by bin: what forecasts are made from."""

from __future__ import annotations

from django.db import models

from console.workloads.models import OnlineService


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


class ServiceBin(models.Model):
    """What the GPUs of one service used on average in a bin of `BIN_S`, and what was foretold then.

    `number` as in `OnlineBin`. `percent` is None where less than half of its `gpus` were measured.
    `middle` and `high` have one byte a horizon, as `console.forecasts.packing` says; `kind` is the
    index in `KINDS`, `known_hours` the hours of history that it could rest on.
    """

    service = models.ForeignKey(OnlineService, models.CASCADE, related_name="bins", db_index=False)
    number = models.BigIntegerField(db_index=True)
    percent = models.FloatField(null=True)
    gpus = models.PositiveIntegerField()
    middle = models.BinaryField()
    high = models.BinaryField()
    kind = models.PositiveSmallIntegerField()
    known_hours = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["service", "number"], name="one_service_bin")
        ]

    def __str__(self) -> str:
        return f"bin {self.number} of {self.service_id}"
