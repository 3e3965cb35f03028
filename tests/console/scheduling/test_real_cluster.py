"""A shadow round over a production cluster of 6,212 GPUs and 2,948 jobs, when its trace is here."""

from __future__ import annotations

import pytest
from django.utils import timezone

from console.audit.services import system
from console.inventory import imports
from console.inventory.models import Gpu
from console.scheduling.models import Decision, Round
from console.workloads.models import OfflineJob
from tests.console.scheduling.cast import a_round

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]


@pytest.fixture
def cluster(data_folder, grid):
    folder = data_folder / "traces"
    if not (folder / "openb_node_list_gpu_node.csv").exists():
        pytest.skip("data: the folder that MUXFLOW_DATA names has no openb trace")
    now = timezone.now()
    return imports.import_path(folder, "openb", actor=system("test"), now=now)


def test_hundreds_of_pairs_are_decided_and_everything_left_out_is_told_why(cluster):
    row = a_round(Round.Kind.SHADOW, now=timezone.now())
    told = Decision.objects.filter(round=row)
    assert row.placed >= 500
    assert row.objective == pytest.approx(row.upper_bound)
    assert told.exclude(gpu=None).count() == Gpu.objects.count() == row.gpus
    assert told.exclude(job=None).count() == OfflineJob.objects.filter(state="QUEUED").count()
    assert not told.filter(why="").exists()
