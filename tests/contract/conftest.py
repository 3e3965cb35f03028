"""A small console to call, and the token of an admin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.utils import timezone

from agents.wire.names import Origin
from console.accounts import tokens
from console.accounts.models import Role
from console.audit.services import system
from console.evictions import services as evictions
from console.faults.services import agent_told as tell_fault
from console.inventory import enrolment, imports
from console.inventory.models import Node, Pool
from console.policies import services as policies
from tests.console.accounts.cast import a_user
from tests.console.faults import cast as faults
from tests.console.inventory.importing.test_documents import a_cluster, read
from tests.console.workloads.cast import placed


@pytest.fixture
def kept_connection(db: None) -> Iterator[None]:
    """A request leaves the transaction of its test open, as with Django's own client."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def bearer(kept_connection: None) -> str:
    """The header of an admin, who sees a service, a queued and a placed job, a fault, and an
    eviction."""
    now = timezone.now()
    policies.ensure_defaults(now, demo=False)
    imports.import_cluster(read(a_cluster()), actor=system("test"), now=now)
    gpu = Node.objects.get(name="node-01").gpus.get()
    placement = placed(gpu)
    told = faults.data(gpu, others=[])
    tell_fault(gpu.node, faults.report(gpu, 1, told, now), now)
    evictions.request(placement, Origin.DRAIN, system("test"), "maintenance", now)
    admin = a_user("admin", Role.ADMIN)
    enrolment.issue(Pool.objects.get(), admin, now)
    _, secret = tokens.create(admin, "contract", now)
    return f"Bearer {secret}"
