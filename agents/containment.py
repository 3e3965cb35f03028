"""A defect in one step does not keep the next from being made.

An object and no generator, since it is entered for each GPU on each sample."""

from __future__ import annotations

import logging
from types import TracebackType

from agents.complaints import Complaints

log = logging.getLogger(__name__)


class Containment:
    """Logs what a step raised, once a minute for the same, and lets nobody else hear of it."""

    def __init__(self, of: str, step: str = "a step for one of its GPUs") -> None:
        """`of`: whose step it is. Both in words, for the log."""
        self._of, self._step, self._complaints = of, step, Complaints()

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if self._complaints.due(repr(error)):
            log.error("%s: %s failed", self._of, self._step, exc_info=error)
        return True
