"""A small console to call, and the token of an admin."""

from __future__ import annotations

import pytest
from django.utils import timezone

from console.accounts import tokens
from console.accounts.models import Role
from console.audit.services import system
from console.inventory import enrolment, imports
from console.policies import services as policies
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_pool
from tests.console.inventory.importing.test_documents import a_cluster, read


@pytest.fixture
def bearer(transactional_db: None) -> str:
    """The header of an admin, who sees one cluster with a service and a job."""
    now = timezone.now()
    policies.ensure_defaults(now, demo=False)
    imports.import_cluster(read(a_cluster()), actor=system("test"), now=now)
    admin = a_user("admin", Role.ADMIN)
    enrolment.issue(a_pool(), admin, now)
    _, secret = tokens.create(admin, "contract", now)
    return f"Bearer {secret}"
