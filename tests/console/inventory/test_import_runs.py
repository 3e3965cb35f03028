"""An import that somebody started from a page."""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import PermissionDenied

from console.accounts.models import Role
from console.errors import Invalid
from console.inventory import import_runs
from console.inventory.models import Node
from console.runs.models import Run
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW
from tests.console.inventory.importing.test_documents import a_cluster

pytestmark = pytest.mark.django_db


def start(document: str, *roles: Role) -> Run:
    return import_runs.start(document, "cluster.json", a_user("ann", *roles), NOW)


def test_a_worker_imports_what_an_admin_sent():
    run = start(json.dumps(a_cluster()), Role.ADMIN)
    import_runs.perform(run.pk, "worker", NOW)
    run.refresh_from_db()
    assert (run.state, run.progress, run.result["written"]["nodes"]) == ("SUCCEEDED", 1.0, 2)
    assert Node.objects.count() == 2


def test_a_run_whose_bell_was_lost_is_found():
    start(json.dumps(a_cluster()), Role.ADMIN)
    import_runs.perform_waiting("worker", NOW)
    assert Run.objects.get().state == "SUCCEEDED"


def test_a_bad_file_lists_its_lines_and_imports_nothing():
    run = start("nodes: [{name: n}]", Role.ADMIN)
    import_runs.perform(run.pk, "worker", NOW)
    run.refresh_from_db()
    assert run.state == "FAILED"
    assert run.result["problems"] == ["cluster.json line 1: Object missing required field `pool`"]
    assert not Node.objects.exists()


def test_the_same_file_twice_is_refused_the_second_time():
    for name in ("ann", "bob"):
        user = a_user(name, Role.ADMIN)
        run = import_runs.start(json.dumps(a_cluster()), "cluster.json", user, NOW)
        import_runs.perform(run.pk, "worker", NOW)
    run.refresh_from_db()
    assert (run.state, Node.objects.count()) == ("FAILED", 2)
    assert "are here already" in run.message


def test_only_an_admin_of_everything_imports():
    with pytest.raises(PermissionDenied):
        start("{}", Role.OPERATOR)


def test_an_enormous_document_is_refused():
    with pytest.raises(Invalid, match="16 MiB"):
        start("x" * ((16 << 20) + 1), Role.ADMIN)
