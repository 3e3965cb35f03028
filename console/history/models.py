"""The past of the fleet, as packed blocks."""

from __future__ import annotations

from django.db import models


class Kind(models.IntegerChoices):
    """Whose past: of a node each GPU's, of a pool and a service that of all its GPUs as one."""

    NODE = 1
    POOL = 2
    SERVICE = 3


class Block(models.Model):
    """`blocks.pack_*` of one owner from `start` (Unix s) on, in a tier named by its period.

    What is new is a block of a minute, with the epoch of its writer; readers merge those of one
    minute. When their hour is over they become part of its one block, which has epoch 0, as all
    that is rolled up: doing it twice writes it once. So a block of a minute whose hour is rolled up
    says that the hour is to be rolled up again.
    """

    pk = models.CompositePrimaryKey("kind", "owner", "tier_s", "start", "epoch")
    kind = models.SmallIntegerField(choices=Kind.choices)
    owner = models.BigIntegerField()
    tier_s = models.SmallIntegerField()
    start = models.BigIntegerField()
    epoch = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        indexes = [
            models.Index(fields=["tier_s", "start"], name="block_age"),
            models.Index(fields=["start"], name="block_fresh", condition=models.Q(epoch__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{Kind(self.kind).label} {self.owner} from {self.start}, {self.tier_s} s"


class Writer(models.Model):
    """One row: whoever writes blocks raises its epoch first, and so waits until all who did before
    are done."""

    epoch = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"writer {self.epoch}"


class TakenBatch(models.Model):
    """A batch that is in the blocks: whoever finds it in Redis again has only to throw it away."""

    name = models.CharField(max_length=150, primary_key=True)
    taken_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.name


class RolledUp(models.Model):
    """How far a tier is rolled up: all blocks before `start`, and of those at `start` the nodes up
    to `after_node`."""

    tier_s = models.SmallIntegerField(primary_key=True)
    start = models.BigIntegerField()
    after_node = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.tier_s} s up to {self.start}"
