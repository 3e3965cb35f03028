"""Fill the demo's database: policies, people, the cluster file, and each node's credentials."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

from agents.wire import cluster as cluster_file
from agents.wire import credentials
from agents.wire.names import SharingMode
from console.audit.services import system
from console.demo import people
from console.demo.cluster import REAL_NODE, with_real_node
from console.inventory import enrolment, imports
from console.inventory.models import Node
from console.policies import services as policies
from console.workloads import services as workloads
from console.workloads.models import OfflineJob


def everything(path: Path, folder: Path, password: str, now: datetime) -> None:
    people.create(password)
    cluster = with_real_node(cluster_file.decode(path.read_bytes()))
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
    """Submit jobs like those of the cluster file, under the next free numbers."""
    models = list(OfflineJob.objects.exclude(pools__contains="lab").order_by("id")[:200])
    if not models:
        return
    chosen = random.Random(OfflineJob.objects.count()).choices(models, k=count)
    for number, model in enumerate(chosen, start=OfflineJob.objects.count() + 1):
        workloads.resubmit(model, f"{model.name.rsplit('-', 1)[0]}-{number}", now)
