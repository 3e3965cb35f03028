"""The form that submits a job, in the units that people think in."""

from __future__ import annotations

import shlex
from typing import Any, Final

from django import forms

from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.names import Checkpoint
from console.accounts import access
from console.accounts.models import Role, User
from console.inventory.models import Gpu
from console.workloads.models import OfflineJob, Team
from console.workloads.services import LONGEST_IMAGE, MOST_CPU_CORES, Submission

GIB: Final = 1 << 30
HOUR_S: Final = 3_600.0


class JobForm(forms.Form):
    name = forms.CharField(max_length=128)
    team = forms.ModelChoiceField(Team.objects.all(), empty_label=None)
    work_h = forms.FloatField(
        label="Length", min_value=0.01, max_value=8_760, help_text="hours, alone on one GPU"
    )
    memory_gib = forms.FloatField(
        label="GPU memory",
        min_value=0.01,
        max_value=4_096,
        required=False,
        help_text="GiB at its peak",
    )
    gpus = forms.IntegerField(
        label="GPUs", min_value=1, max_value=MAX_GPUS_PER_NODE, initial=1, required=False
    )
    cpu_cores = forms.FloatField(
        label="CPU", min_value=0.01, max_value=MOST_CPU_CORES, required=False, help_text="cores"
    )
    host_memory_gib = forms.FloatField(
        label="Host memory", min_value=0.01, max_value=4_096, required=False, help_text="GiB"
    )
    sm_percent = forms.FloatField(
        label="SM activity",
        min_value=0,
        max_value=100,
        required=False,
        help_text="% of one GPU, alone",
    )
    gpu_util_percent = forms.FloatField(
        label="Utilisation",
        min_value=0,
        max_value=100,
        required=False,
        help_text="% of one GPU, alone",
    )
    memory_bandwidth_percent = forms.FloatField(
        label="Memory bandwidth",
        min_value=0,
        max_value=100,
        required=False,
        help_text="% of one GPU",
    )
    priority = forms.IntegerField(min_value=-1_000, max_value=1_000, initial=0)
    checkpoint = forms.ChoiceField(
        choices=[
            (Checkpoint.ON_SIGTERM.value, "saves its work when it is told to stop"),
            (Checkpoint.NONE.value, "saves nothing: an eviction loses all of it"),
        ],
    )
    checkpoint_min = forms.FloatField(
        label="Saves by itself every", min_value=0.1, max_value=1e5, initial=10, help_text="minutes"
    )
    pools = forms.MultipleChoiceField(required=False, help_text="none chosen: any that you may use")
    gpu_models = forms.MultipleChoiceField(
        label="GPU models", required=False, help_text="none chosen: any"
    )
    labels = forms.CharField(
        required=False, help_text="key=value, apart by spaces; all of them required"
    )
    image = forms.CharField(max_length=LONGEST_IMAGE, required=False)
    command = forms.CharField(
        required=False, max_length=4_096, help_text="only for nodes that run real processes"
    )
    max_retries = forms.IntegerField(
        label="Tries after a failure", min_value=0, max_value=100, initial=3
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pools = access.pools_for(user, Role.OPERATOR).values_list("name", flat=True)
        self.fields["pools"].choices = [(name, name) for name in pools]  # type: ignore[attr-defined]
        models = (
            Gpu.objects.filter(retired_at=None).order_by("model").values_list("model", flat=True)
        )
        choices = [(model, model) for model in models.distinct()]
        self.fields["gpu_models"].choices = choices  # type: ignore[attr-defined]

    def clean_labels(self) -> list[str]:
        told: str = self.cleaned_data["labels"]
        return told.replace(",", " ").split()

    def clean_command(self) -> list[str]:
        try:
            return shlex.split(self.cleaned_data["command"])
        except ValueError as error:
            raise forms.ValidationError(f"The shell could not read this: {error}.") from error

    def submission(self) -> Submission:
        """What was filled in, once it is valid."""
        values = self.cleaned_data
        return Submission(
            name=values["name"],
            team=values["team"],
            work_s=values["work_h"] * HOUR_S,
            memory_bytes=_bytes(values["memory_gib"]),
            sm_percent=values["sm_percent"],
            gpu_util_percent=values["gpu_util_percent"],
            memory_bandwidth_percent=values["memory_bandwidth_percent"] or 0.0,
            priority=values["priority"],
            checkpoint=Checkpoint(values["checkpoint"]),
            checkpoint_period_s=values["checkpoint_min"] * 60,
            pools=values["pools"],
            gpu_models=values["gpu_models"],
            command=values["command"],
            max_retries=values["max_retries"],
            image=values["image"],
            gpus=values["gpus"] or 1,
            cpu_cores=values["cpu_cores"],
            host_memory_bytes=_bytes(values["host_memory_gib"]),
            labels=values["labels"],
        )


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else round(gib * GIB)


def like(job: OfflineJob) -> dict[str, Any]:
    """The form's values for another job like this one. A profile that nobody gave is left out: the
    new job is known by what jobs like it measured, or is measured itself."""
    given = job.profile_source == OfflineJob.ProfileSource.USER
    return {
        "name": f"{job.name}-again",
        "team": job.team_id,
        "work_h": round(job.work_s / HOUR_S, 3),
        "memory_gib": round(job.memory_bytes / GIB, 2) if given else None,
        "sm_percent": job.sm_percent if given else None,
        "gpu_util_percent": job.gpu_util_percent if given else None,
        "memory_bandwidth_percent": job.memory_bandwidth_percent if given else None,
        "image": job.image,
        "gpus": job.gpus,
        "cpu_cores": job.cpu_cores,
        "host_memory_gib": job.host_memory_bytes and round(job.host_memory_bytes / GIB, 2),
        "labels": " ".join(job.labels),
        "priority": job.priority,
        "checkpoint": job.checkpoint,
        "checkpoint_min": round(job.checkpoint_period_s / 60, 2),
        "pools": job.pools,
        "gpu_models": job.gpu_models,
        "command": shlex.join(job.command),
        "max_retries": job.max_retries,
    }
