from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agents.contention.cluster import build_cluster
from agents.wire import cluster as cluster_file
from agents.wire import credentials
from agents.wire.names import SharingMode
from console.demo import people, seed
from console.demo.cluster import (
    CAMPAIGN_PRIORITY,
    CAREFUL_FAMILY,
    CARELESS_FAMILY,
    REAL_MODELS,
    REAL_POOL,
)
from console.inventory import sharing
from console.inventory.models import Gpu, Node, Pool
from console.policies import services as policies
from console.workloads.models import OfflineJob

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    path.write_bytes(cluster_file.encode(build_cluster(2, 4, seed=7)))
    seed.everything(path, tmp_path, "a long password", NOW)
    return tmp_path


def test_every_gpu_starts_at_observe(folder: Path) -> None:
    assert set(Gpu.objects.values_list("sharing_mode", "node__pool__sharing_mode")) == {
        ("observe", "observe")
    }


def test_each_node_gets_credentials_that_only_the_owner_reads(folder: Path) -> None:
    fleet = credentials.decode((folder / "fleet.json").read_bytes())
    real = credentials.decode((folder / "node-17.json").read_bytes())
    assert {item.node for item in (*fleet, *real)} == set(
        Node.objects.values_list("name", flat=True)
    )
    assert (folder / "fleet.json").stat().st_mode & 0o077 == 0


def test_there_is_a_person_for_each_role_of_the_menu(folder: Path) -> None:
    assert all(people.with_role(role) for role in ("viewer", "approver", "admin"))
    assert people.with_role("owner") is None


def test_some_jobs_come_without_a_profile(folder: Path) -> None:
    novel = OfflineJob.objects.filter(state="PENDING")
    assert {job.profile_source for job in novel} == {"conservative"}
    assert novel.count() == 4
    assert len(set(novel.values_list("profile_key", flat=True))) == 3


def test_a_refill_adds_waiting_jobs_some_of_them_urgent(folder: Path) -> None:
    before = set(OfflineJob.objects.values_list("id", flat=True))
    seed.refill_queue(40, NOW)
    added = OfflineJob.objects.exclude(id__in=before)
    assert added.filter(state="QUEUED").count() == 40
    assert added.filter(priority__gte=CAMPAIGN_PRIORITY).count() == 4
    assert len(set(added.values_list("name", flat=True))) == 40


def test_the_pool_of_the_stand_in_gpus_alone_lets_jobs_run_without_xcuda(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(cluster_file.encode(build_cluster(1, 2, seed=7)))
    seed.everything(path, tmp_path, "a long password", NOW, ("GPU-a", "GPU-b"))
    allowed = {
        pool.name: policies.rules_for(pool).allow_unlimited_jobs for pool in Pool.objects.all()
    }
    assert allowed.pop(REAL_POOL)
    assert not any(allowed.values())
    assert {sharing.effective_mode(gpu) for gpu in Gpu.objects.all()} == {SharingMode.OBSERVE}
    careless = OfflineJob.objects.filter(name__startswith=f"{CARELESS_FAMILY}-")
    careful = OfflineJob.objects.filter(name__startswith=f"{CAREFUL_FAMILY}-")
    assert {"LD_PRELOAD" in job.command for job in careless} == {True}
    assert {"LD_PRELOAD" in job.command for job in careful} == {False}
    models = {(job.pools[0], *job.gpu_models) for job in (*careful, *careless)}
    assert models == {(REAL_POOL, model) for model in REAL_MODELS}


def test_real_processes_do_not_pile_up_before_their_one_node(folder: Path) -> None:
    processes = OfflineJob.objects.exclude(command=[])
    at_first = processes.count()
    seed.refill_processes(NOW)
    assert (processes.count(), seed.processes_are_low()) == (at_first, False)
    processes.update(state="SUCCEEDED")
    assert seed.processes_are_low()
    seed.refill_processes(NOW)
    assert processes.filter(state="QUEUED").count() == seed.PROCESSES_WAITING
