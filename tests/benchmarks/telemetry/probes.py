"""A few nodes among the fleet whose samples say when they were made: they measure how long it
takes from there to a browser. All clocks are this machine's one."""

from __future__ import annotations

from collections.abc import Callable

from agents.wire.credentials import Credentials
from agents.wire.messages import GpuInventory, PackedTelemetry
from tests.benchmarks.telemetry.sender import GIB, Speaker

# Steps of half a percent of headroom that a cell shows, one after another.
CODES = range(20, 220)


class Probe(Speaker):
    def __init__(self, key: Credentials, gpus: int, url: str, phase: float) -> None:
        cards = [
            GpuInventory(at, f"GPU-{key.node}-{at}", "NVIDIA A100", 80 * GIB, power_limit_w=400.0)
            for at in range(gpus)
        ]
        super().__init__(key, cards, url)
        self._phase = phase
        # Is told the node, the code that its first GPU shows from now on, and when it was made.
        self.tell: Callable[[str, int, float], object] = lambda *_: None

    def _telemetry(self) -> PackedTelemetry:
        made = super()._telemetry()
        self.tell(self._key.node, self._code, made.sent_at)
        return made

    def _headroom(self) -> float:
        return self._code / 2

    @property
    def _code(self) -> int:
        return CODES[self._number % len(CODES)]
