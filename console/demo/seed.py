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
from console.demo.cluster import CAMPAIGN_PRIORITY, REAL_NODE, staged
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

    Of ten one is a real process for the node that runs such, and one is urgent.
    """
    simulated = OfflineJob.objects.filter(command=[])
    ordinary = list(simulated.exclude(priority__gte=CAMPAIGN_PRIORITY).order_by("id")[:FAMILIES])
    urgent = list(simulated.filter(priority__gte=CAMPAIGN_PRIORITY).order_by("id")[:FAMILIES])
    processes = list(OfflineJob.objects.exclude(command=[]).order_by("id")[:FAMILIES])
    kinds = [processes, urgent] + 8 * [ordinary]
    taken = OfflineJob.objects.count()
    for number in range(taken + 1, taken + count + 1):
        model = random.Random(number).choice(kinds[number % 10] or ordinary)
        workloads.resubmit(model, f"{model.name.rsplit('-', 1)[0]}-{number}", now)
