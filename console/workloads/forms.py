"""The form that submits a job, in the units that people think in."""

from __future__ import annotations

import shlex
from typing import Any, Final

from django import forms

from agents.wire.names import Checkpoint
from console.accounts import access
from console.accounts.models import Role, User
from console.inventory.models import Gpu
from console.workloads.models import OfflineJob, Team
from console.workloads.services import Submission

GIB: Final = 1 << 30
HOUR_S: Final = 3_600.0


class JobForm(forms.Form):
    name = forms.CharField(max_length=128)
    team = forms.ModelChoiceField(Team.objects.all(), empty_label=None)
    work_h = forms.FloatField(
        label="Length", min_value=0.01, max_value=8_760, help_text="hours, alone on one GPU"
    )
    memory_gib = forms.FloatField(
        label="Memory", min_value=0.01, max_value=4_096, help_text="GiB at its peak"
    )
    sm_percent = forms.FloatField(
        label="SM activity", min_value=0, max_value=100, help_text="% of one GPU, alone"
    )
    gpu_util_percent = forms.FloatField(
        label="Utilisation", min_value=0, max_value=100, help_text="% of one GPU, alone"
    )
    memory_bandwidth_percent = forms.FloatField(
        label="Memory bandwidth", min_value=0, max_value=100, initial=0, help_text="% of one GPU"
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
            memory_bytes=round(values["memory_gib"] * GIB),
            sm_percent=values["sm_percent"],
            gpu_util_percent=values["gpu_util_percent"],
            memory_bandwidth_percent=values["memory_bandwidth_percent"],
            priority=values["priority"],
            checkpoint=Checkpoint(values["checkpoint"]),
            checkpoint_period_s=values["checkpoint_min"] * 60,
            pools=values["pools"],
            gpu_models=values["gpu_models"],
            command=values["command"],
            max_retries=values["max_retries"],
        )


def like(job: OfflineJob) -> dict[str, Any]:
    """The form's values for another job like this one."""
    return {
        "name": f"{job.name}-again",
        "team": job.team_id,
        "work_h": round(job.work_s / HOUR_S, 3),
        "memory_gib": round(job.memory_bytes / GIB, 2),
        "sm_percent": job.sm_percent,
        "gpu_util_percent": job.gpu_util_percent,
        "memory_bandwidth_percent": job.memory_bandwidth_percent,
        "priority": job.priority,
        "checkpoint": job.checkpoint,
        "checkpoint_min": round(job.checkpoint_period_s / 60, 2),
        "pools": job.pools,
        "gpu_models": job.gpu_models,
        "command": shlex.join(job.command),
        "max_retries": job.max_retries,
    }
