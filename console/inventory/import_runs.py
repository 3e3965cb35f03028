"""An import that somebody started from a page or the API, done by a worker."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from console import doorbell
from console.accounts import access
from console.accounts.models import Role, User
from console.audit.services import person, system
from console.errors import Invalid, MuxFlowError
from console.inventory import imports
from console.inventory.importing import documents
from console.inventory.importing.problems import Malformed
from console.runs import services as runs
from console.runs.models import Run

KIND: Final = "import"
MAX_CHARS: Final = 16 << 20
# What one run keeps of a bad file; the file itself has the rest.
MAX_PROBLEMS: Final = 200


def start(document: str, file_name: str, user: User, now: datetime) -> Run:
    """The queued run. Raises PermissionDenied, and Invalid for a document that is too large."""
    access.require(user, Role.ADMIN)
    if not 0 < len(document) <= MAX_CHARS:
        raise Invalid(f"Send a cluster file of up to {MAX_CHARS >> 20} MiB; docs/import.md tells.")
    arguments = {"document": document, "file_name": file_name[:100]}
    return runs.start(KIND, arguments, user, doorbell.RUN_IMPORT, now)


def perform(run_id: UUID, holder: str, now: datetime) -> None:
    """Do the run, unless it is over or another worker's."""
    run = runs.claim(run_id, holder, now)
    if run is None:
        return
    try:
        runs.succeed(run, _import(run, now), now)
    except Malformed as error:
        lines = [str(problem) for problem in error.problems[:MAX_PROBLEMS]]
        runs.fail(run, str(error), now, {"problems": lines})
    except MuxFlowError as error:
        runs.fail(run, str(error), now)


def perform_waiting(holder: str, now: datetime) -> None:
    """Do what a lost bell or a dead worker left behind."""
    for run_id in runs.waiting(KIND):
        perform(run_id, holder, now)


def _import(run: Run, now: datetime) -> dict[str, Any]:
    runs.progress(run, 0.1, "Reading")
    file_name = run.arguments["file_name"]
    cluster = documents.read_document(run.arguments["document"].encode(), file_name)
    runs.progress(run, 0.5, "Writing")
    actor = person(run.started_by) if run.started_by else system("import")
    report = imports.import_cluster(cluster, actor=actor, now=now)
    return {"written": dict(report.written), "skipped": dict(report.skipped)}
