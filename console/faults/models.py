"""Faults of processes on a GPU, and whom they reached, as the nodes told them."""

from __future__ import annotations

from django.db import models

from console.faults import story
from console.faults.story import State
from console.inventory.models import Gpu
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob, OnlineService


class Fault(models.Model):
    """One fault; its id is the agent's. The latest telling holds, and `told_seq` is its number.

    `first` and each of `others` is {pid, side, name, placement_id}, `moments` are {after_s, what}:
    see story.Process and story.Moment. `first` None: nobody knows who it was. `job` and `service`
    say whose process that was, `jobs_hit` and `services_hit` whose the others were, as far as they
    are known here. `recovered_s`: until every online process was a healthy client again.
    `held_job` is held for it.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    gpu = models.ForeignKey(Gpu, models.CASCADE, related_name="faults")
    seen_at = models.DateTimeField(db_index=True)
    told_at = models.DateTimeField()
    told_seq = models.BigIntegerField()
    ended_at = models.DateTimeField(null=True, blank=True)
    recovered_s = models.FloatField(null=True, blank=True)

    why = models.CharField(max_length=story.WHY_CHARS)
    code = models.BigIntegerField(null=True, blank=True)
    first = models.JSONField(null=True, blank=True)
    first_by = models.CharField(max_length=story.BY_CHARS, blank=True)
    others = models.JSONField(default=list, blank=True)
    moments = models.JSONField(default=list, blank=True)

    placement = models.ForeignKey(
        Placement, models.SET_NULL, null=True, blank=True, related_name="faults"
    )
    job = models.ForeignKey(
        OfflineJob, models.SET_NULL, null=True, blank=True, related_name="faults_caused"
    )
    service = models.ForeignKey(
        OnlineService, models.SET_NULL, null=True, blank=True, related_name="faults_caused"
    )
    jobs_hit = models.ManyToManyField(OfflineJob, blank=True, related_name="faults_suffered")
    services_hit = models.ManyToManyField(OnlineService, blank=True, related_name="faults_suffered")
    held_job = models.ForeignKey(OfflineJob, models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["-seen_at", "pk"]
        indexes = [models.Index(fields=["gpu", "-seen_at"], name="fault_gpu")]

    def __str__(self) -> str:
        return f"fault on {self.gpu}"

    @property
    def state(self) -> State:
        processes = [*([self.first] if self.first else []), *self.others]
        online = any(one["side"] == story.Side.ONLINE for one in processes)
        return story.state(self.recovered_s, over=self.ended_at is not None, online=online)
