"""Fill the demo's database: policies, people, the cluster file, and each node's credentials."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from django.db.models import QuerySet

from agents.wire import cluster as cluster_file
from agents.wire import credentials
from agents.wire.names import SharingMode
from console.accounts.models import User
from console.audit.services import system
from console.demo import people
from console.demo.cluster import (
    CAMPAIGN_PRIORITY,
    CAREFUL_FAMILY,
    CARELESS_FAMILY,
    NOVEL,
    NOVEL_HOURS,
    PROCESS_FAMILY,
    REAL_NODE,
    REAL_POOL,
    WORLD_HOUR_S,
    staged,
)
from console.inventory import enrolment, imports
from console.inventory.models import Node, Pool
from console.policies import rules
from console.policies import services as policies
from console.policies.models import Policy
from console.workloads import services as workloads
from console.workloads.models import OfflineJob, Team
from console.workloads.services import Submission

FAMILIES = 200
URGENT_IN = 10
PROCESSES_WAITING, PROCESSES_LOW = 4, 2


def everything(
    path: Path, folder: Path, password: str, now: datetime, gpu_uuids: Sequence[str] = ()
) -> None:
    """`gpu_uuids` are those of node 17's stand-in GPUs."""
    people.create(password)
    cluster = staged(cluster_file.decode(path.read_bytes()), gpu_uuids)
    path.write_bytes(cluster_file.encode(cluster))
    imports.import_cluster(cluster, actor=system("demo"), now=now, mode=SharingMode.OBSERVE)
    policies.ensure_defaults(now, demo=True)
    _submit_novel(now)
    if gpu_uuids:
        _let_jobs_run_unlimited(REAL_POOL, now)
    _enrol(folder)


def _submit_novel(now: datetime) -> None:
    """Jobs that nobody knows: they are measured on the first GPUs that are free and share. None of
    them is for the node that would really run its command."""
    pools = Pool.objects.exclude(name=REAL_POOL).values_list("name", flat=True)
    admin = User.objects.get(username=people.username("admin"))
    team = Team.objects.get(name="research")
    for name, image, command in NOVEL:
        wanted = Submission(
            name,
            team,
            NOVEL_HOURS * WORLD_HOUR_S,
            image=image,
            command=command.split(),
            pools=list(pools),
        )
        workloads.submit(wanted, admin, now)


def _let_jobs_run_unlimited(pool: str, now: datetime) -> None:
    """In this pool alone, so that it can be seen what xCUDA is good for."""
    policy = Policy.objects.create(name=pool.capitalize(), slug=pool)
    Pool.objects.filter(name=pool).update(policy=policy)
    balanced = rules.presets(demo=True)[policies.DEFAULT]
    body = msgspec.structs.replace(balanced, allow_unlimited_jobs=True)
    admin = User.objects.get(username=people.username("admin"))
    policies.save_version(policy, body, admin, "To see what a job without xCUDA does", now)


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
    """Submit `count` simulated jobs like those of the cluster file, one in ten of them urgent."""
    simulated = OfflineJob.objects.filter(command=[])
    urgent = count // URGENT_IN
    _resubmit(simulated.filter(priority__gte=CAMPAIGN_PRIORITY), urgent, now)
    _resubmit(simulated.exclude(priority__gte=CAMPAIGN_PRIORITY), count - urgent, now)


def processes_are_low() -> bool:
    """Whether the node that runs real processes will soon have nothing to run of some kind."""
    return any(_waiting(family) < PROCESSES_LOW for family in _families())


def refill_processes(now: datetime) -> None:
    """As many as keep a few of each kind waiting for the node that runs such."""
    for family in _families():
        _resubmit(family, PROCESSES_WAITING - _waiting(family), now)


def _families() -> list[QuerySet[OfflineJob]]:
    """Of real processes, those that this demo has."""
    names = (PROCESS_FAMILY, CAREFUL_FAMILY, CARELESS_FAMILY)
    families = [OfflineJob.objects.filter(name__startswith=f"{name}-") for name in names]
    return [family for family in families if family.exists()]


def _waiting(family: QuerySet[OfflineJob]) -> int:
    return family.filter(state=OfflineJob.State.QUEUED).count()


def _resubmit(like: QuerySet[OfflineJob], count: int, now: datetime) -> None:
    """Each new name ends in the next free number."""
    models = list(like.order_by("id")[:FAMILIES])
    first = OfflineJob.objects.count() + 1
    for number in range(first, first + count) if models else ():
        model = random.Random(number).choice(models)
        workloads.resubmit(model, f"{model.name.rsplit('-', 1)[0]}-{number}", now)
