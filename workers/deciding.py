"""Decide a round with the predictor in force, and with what this process remembers of the last."""

from __future__ import annotations

import logging
from uuid import UUID

from agents.wire.names import SharingMode
from console.predictor import registry
from console.scheduling import rounds
from console.scheduling.plan import Plan, Verdict
from console.scheduling.snapshot import Snapshot
from workers.matching import ask
from workers.matching import decide as matching
from workers.matching.memory import Memory
from workers.prediction import artifact
from workers.prediction.analytic import Analytic
from workers.prediction.predictor import Predictor

log = logging.getLogger(__name__)


class Mind:
    """One for each process: the predictor as loaded last, and a memory for each kind of round."""

    def __init__(self) -> None:
        self._memories: dict[SharingMode, Memory] = {}
        self._version: int | None = None
        self._predictor: Predictor = Analytic()

    def decide(self, snapshot: Snapshot) -> Plan:
        memory = self._memories.setdefault(snapshot.mode, Memory())
        # Another process may have run the last round.
        memory.prices = rounds.last_prices(snapshot.mode)
        return matching.decide(snapshot, self.predictor(), memory)

    def why(self, snapshot: Snapshot, job_id: UUID, gpu_id: int) -> Verdict:
        """What keeps the job off the GPU, or what the pair would be like."""
        prices = rounds.last_prices(snapshot.mode)
        return ask.why(snapshot, self.predictor(), job_id, gpu_id, prices)

    def predictor(self) -> Predictor:
        """The version in force; the analytic estimate when there is none, or it is damaged."""
        number = registry.active_number()
        if number != self._version:
            self._predictor = _load()
            self._version = number
        return self._predictor


def _load() -> Predictor:
    found = registry.active_data()
    if found is None:
        return Analytic()
    number, data = found
    try:
        return artifact.load(data, number)
    except ValueError as error:
        log.error("Version %d cannot be loaded, the estimate stands in for it: %s", number, error)
        return Analytic()


mind = Mind()
