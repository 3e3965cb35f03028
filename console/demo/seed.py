"""Fill the demo's database: policies, people, the cluster file, and each node's credentials."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

from django.db.models import QuerySet

from agents.wire import cluster as cluster_file
from agents.wire import credentials
from agents.wire.names import SharingMode
from console.audit.services import system
from console.demo import people
from console.demo.cluster import CAMPAIGN_PRIORITY, REAL_NODE, staged
from console.inventory import enrolment, imports
from console.inventory.models import Node
from console.policies import services as policies
from console.workloads import services as workloads
from console.workloads.models import OfflineJob

FAMILIES = 200
URGENT_IN = 10
PROCESSES_WAITING = 4


def everything(path: Path, folder: Path, password: str, now: datetime) -> None:
    people.create(password)
    cluster = staged(cluster_file.decode(path.read_bytes()))
    path.write_bytes(cluster_file.encode(cluster))
    imports.import_cluster(cluster, actor=system("demo"), now=now, mode=SharingMode.OBSERVE)
    policies.ensure_defaults(now, demo=True)
    _enrol(folder)


def _enrol(folder: Path) -> None:
    """One file for the simulated fleet, one for the node with real processes."""
    issued = tuple(enrolment.credentials_for(node) for node in Node.objects.all())
    fleet = tuple(item for item in issued if item.node != REAL_NODE)
    real = tuple(item for item in issued if item.node == REAL_NODE)
    for name, items in (("fleet.json", fleet), ("node-17.json", real)):
        target = folder / name
        target.touch(0o600)
        target.write_bytes(credentials.encode(items))


def refill_queue(count: int, now: datetime) -> None:
    """Submit `count` simulated jobs like those of the cluster file, one in ten of them urgent, and
    as many real processes as keep a few waiting for the node that runs such.
    """
    simulated = OfflineJob.objects.filter(command=[])
    urgent = count // URGENT_IN
    _resubmit(simulated.filter(priority__gte=CAMPAIGN_PRIORITY), urgent, now)
    _resubmit(simulated.exclude(priority__gte=CAMPAIGN_PRIORITY), count - urgent, now)
    processes = OfflineJob.objects.exclude(command=[])
    waiting = processes.filter(state=OfflineJob.State.QUEUED).count()
    _resubmit(processes, PROCESSES_WAITING - waiting, now)


def _resubmit(like: QuerySet[OfflineJob], count: int, now: datetime) -> None:
    """Each new name ends in the next free number."""
    models = list(like.order_by("id")[:FAMILIES])
    first = OfflineJob.objects.count() + 1
    for number in range(first, first + count) if models else ():
        model = random.Random(number).choice(models)
        workloads.resubmit(model, f"{model.name.rsplit('-', 1)[0]}-{number}", now)
