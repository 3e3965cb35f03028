"""The chain of the audit story. The sealer takes its own lease."""

from __future__ import annotations

from django.utils import timezone

from console.audit import services
from console.doorbell import SEAL_AUDIT
from workers.tasks.register import task


@task(SEAL_AUDIT)
def seal_audit() -> None:
    services.seal(timezone.now())
