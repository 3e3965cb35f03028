"""The form of the source under Settings: what is in force, what was typed, what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from console.accounts import access
from console.accounts.models import Role, User
from console.errors import Invalid, MuxFlowError
from console.prometheus import services
from console.prometheus.models import Source
from console.prometheus.services import Trial, Wanted

SHOWN: Final = 50


def in_force(user: User) -> dict[str, Any]:
    closed = "" if access.allowed(user, Role.ADMIN) else access.missing(Role.ADMIN)
    source = None if closed else services.current()
    return {
        "closed": closed,
        "source": source,
        "asked": services.wanted(source) if source else Wanted("", ""),
        "units": Source.Unit.choices,
    }


def typed(posted: Mapping[str, str]) -> Wanted:
    return Wanted(**{field.name: posted.get(field.name, "").strip() for field in fields(Wanted)})


def answered(asked: Wanted, trial: Trial) -> dict[str, Any]:
    return {
        "asked": asked,
        "trial": trial,
        "p99": trial.p99[:SHOWN],
        "qps": trial.qps[:SHOWN],
        "others": trial.others[:SHOWN],
    }


def refused(asked: Wanted, error: MuxFlowError) -> dict[str, Any]:
    problems = error.fields if isinstance(error, Invalid) else {}
    return {"asked": asked, "failed": str(error), "problems": problems}
