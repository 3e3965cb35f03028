"""An import is written whole, once, or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from agents.wire.names import SharingMode
from console.audit.models import Entry
from console.audit.services import system
from console.errors import Refused
from console.inventory import imports, nodes
from console.inventory.importing import documents
from console.inventory.models import Gpu, Node, Pool
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService
from tests.console.inventory.cast import NOW, a_hello, a_pool, claim
from tests.console.inventory.importing.test_documents import a_cluster, folder, read

pytestmark = pytest.mark.django_db
TABLES = (Pool, Node, Gpu, OnlineService, OnlineInstance, OfflineJob)


def bring_in(**changes):
    cluster = read(a_cluster(**changes))
    return imports.import_cluster(cluster, actor=system("test"), now=NOW)


def counts() -> list[int]:
    return [model.objects.count() for model in TABLES]


def test_an_import_writes_everything_and_marks_it_as_imported():
    assert bring_in().written["gpus"] == 2
    node = Node.objects.get(name="node-01")
    gpu = node.gpus.get()
    assert (node.source, node.pool.sharing_mode) == ("imported", SharingMode.SHADOW)
    assert (gpu.state, gpu.sharing_mode, gpu.source) == ("HEALTHY", "shadow", "imported")
    assert "no agent has reported it" in gpu.state_why
    assert OnlineInstance.objects.get().gpu == gpu
    assert OfflineJob.objects.get().state == "QUEUED"
    assert Entry.objects.filter(action="pool.import").count() == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="database: SQLite keeps no such counts")
def test_the_database_plans_for_the_cluster_and_not_for_empty_tables():
    bring_in()
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE relname = 'inventory_gpu'")
        assert cursor.fetchone() == (Gpu.objects.count(),)


def test_importing_twice_is_refused_and_changes_nothing():
    bring_in()
    before = counts()
    with pytest.raises(Refused, match="2 of these nodes are here already"):
        bring_in()
    assert counts() == before


def test_a_uuid_that_lives_elsewhere_is_refused():
    bring_in()
    renamed = read(a_cluster(services=[])).nodes
    moved = [
        {"name": f"other-{n}", "pool": "web", "gpus": documents.msgspec.to_builtins(node.gpus)}
        for n, node in enumerate(renamed)
    ]
    with pytest.raises(Refused, match="of these GPUs are here already"):
        bring_in(nodes=moved, services=[], jobs=[])


def test_a_pool_that_is_known_is_used_and_keeps_its_mode():
    pool = a_pool("web", sharing_mode=SharingMode.OBSERVE)
    bring_in()
    assert Node.objects.filter(pool=pool).count() == 2
    assert Pool.objects.get().sharing_mode == SharingMode.OBSERVE


def test_when_writing_fails_in_the_middle_nothing_stays(monkeypatch):
    monkeypatch.setattr(OfflineJob, "objects", None)
    monkeypatch.setattr(imports, "OfflineJob", None)
    with pytest.raises(AttributeError):
        bring_in()
    assert not Node.objects.exists()


def test_the_first_hello_of_an_imported_node_takes_the_slots_over(tmp_path: Path):
    cluster = documents.read(folder(tmp_path))
    imports.import_cluster(cluster, actor=system("test"), now=NOW)
    node = Node.objects.get()
    before = set(node.gpus.values_list("pk", flat=True))
    nodes.hello(node, a_hello(claim(0), claim(1)), NOW)
    gpus = list(node.gpus.values_list("uuid", "state", "sharing_mode", "retired_at"))
    assert gpus == [(f"GPU-node-01-{n}", "INIT", "observe", None) for n in (0, 1)]
    assert set(node.gpus.values_list("pk", flat=True)) == before


def test_the_command_tells_what_came_in(tmp_path: Path, capsys):
    call_command("import_cluster", str(folder(tmp_path)))
    assert "2 gpus" in capsys.readouterr().out


def test_the_command_lists_the_lines_that_do_not_fit(tmp_path: Path):
    with pytest.raises(CommandError, match=r"jobs.csv line 1: the header lacks"):
        call_command(
            "import_cluster", str(folder(tmp_path, jobs="name,team\nx\n")), "--format=muxflow"
        )
    assert not Node.objects.exists()


@pytest.mark.timeout(60)
def test_a_real_cluster_comes_in_within_thirty_seconds(data_folder: Path):
    started = time.monotonic()
    report = imports.import_path(data_folder / "traces", "openb", actor=system("test"), now=NOW)
    assert time.monotonic() - started < 30
    assert report.written | {"services": 0} == {
        "pools": 1,
        "teams": 2,
        "nodes": 1_213,
        "gpus": 6_212,
        "services": 0,
        "instances": 3_260,
        "jobs": 2_948,
    }
    ran_or_waited = 3_241 + 2_948
    assert sum(report.skipped.values()) == 8_152 - ran_or_waited
