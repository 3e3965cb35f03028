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
from console.demo.cluster import REAL_NODE, staged
from console.inventory import enrolment, imports
from console.inventory.models import Node
from console.policies import services as policies
from console.workloads import services as workloads
from console.workloads.models import OfflineJob

FAMILIES = 200


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
    """Submit jobs like those of the cluster file, each with the next free number.

    One in ten is a real process for the node that runs such.
    """
    simulated = list(OfflineJob.objects.filter(command=[]).order_by("id")[:FAMILIES])
    processes = list(OfflineJob.objects.exclude(command=[]).order_by("id")[:FAMILIES])
    taken = OfflineJob.objects.count()
    for number in range(taken + 1, taken + count + 1):
        like = processes if processes and number % 10 == 0 else simulated
        model = random.Random(number).choice(like)
        workloads.resubmit(model, f"{model.name.rsplit('-', 1)[0]}-{number}", now)
