"""Two at once, really at once: threads with connections of their own, on a real database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection, connections

from console.audit.services import system
from console.errors import SomebodyWasFirst
from console.evictions.models import Eviction
from console.inventory import draining, enrolment, sharing
from console.inventory.models import Node, Pool, SharingChange
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool
from tests.console.workloads.cast import placed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        connection.vendor == "sqlite",
        reason="services: SQLite in memory refuses two writers at once instead of queueing them",
    ),
]
PEOPLE = 4


def at_once(act: Callable[[int], object]) -> list[type | None]:
    """What each of four threads raised, when all began at the same moment; None: nothing."""
    together = threading.Barrier(PEOPLE)

    def one(number: int) -> type | None:
        try:
            together.wait(5)
            act(number)
        except Exception as error:
            return type(error)
        finally:
            connections.close_all()
        return None

    with ThreadPoolExecutor(PEOPLE) as threads:
        return list(threads.map(one, range(PEOPLE)))


def test_of_four_who_press_start_one_is_first():
    pool = a_node(gpus=8).pool
    outcomes = at_once(
        lambda n: sharing.start([Pool.objects.get(pk=pool.pk)], system(f"person-{n}"), "", NOW)
    )
    assert sorted(outcomes, key=str) == [SomebodyWasFirst] * 3 + [None]
    assert SharingChange.objects.count() == 1


def test_of_four_who_drain_one_is_first_and_each_guest_is_asked_once():
    node = a_node(gpus=2)
    for gpu in node.gpus.all():
        placed(gpu)
    outcomes = at_once(
        lambda n: draining.drain(Node.objects.get(pk=node.pk), system(f"person-{n}"), "", NOW)
    )
    assert outcomes.count(None) == 1
    assert Eviction.objects.count() == 2


def test_of_four_machines_with_one_token_one_joins():
    secret = enrolment.issue(a_pool(), a_user("ann"), NOW)
    outcomes = at_once(lambda n: enrolment.enrol(secret, f"node-{n}", (), NOW))
    assert sorted(outcomes, key=str) == [PermissionDenied] * 3 + [None]
    assert Node.objects.count() == 1
