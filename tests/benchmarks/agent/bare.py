"""The least that reading the GPUs costs in Python: nothing but the wake-ups, the hand-over to a
thread that a driver which hangs can hold up, and the same questions to NVML, five times a second.

For each line of its input it says how late its answers were, in ms, since the line before.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time

from agents.collectors.gpm import GpmSource
from agents.collectors.nvml import Nvml, SignalSource

PERIOD_S = 0.2


def main() -> None:
    asked: queue.SimpleQueue[None] = queue.SimpleQueue()
    answered, late_ms = threading.Semaphore(0), list[float]()
    threading.Thread(target=ask, args=(asked, answered), daemon=True).start()
    threading.Thread(target=tell, args=(late_ms,), daemon=True).start()
    due = time.monotonic()
    while True:
        due += PERIOD_S
        time.sleep(max(0.0, due - time.monotonic()))
        asked.put(None)
        answered.acquire()
        late_ms.append((time.monotonic() - due) * 1_000)


def ask(asked: queue.SimpleQueue[None], answered: threading.Semaphore) -> None:
    nvml = Nvml()
    signals, gpm = SignalSource(nvml), GpmSource(nvml)
    while True:
        asked.get()
        signals.look(time.monotonic())
        gpm.look(time.monotonic())
        answered.release()


def tell(late_ms: list[float]) -> None:
    say("ready")
    for _ in sys.stdin:
        say(json.dumps(late_ms))
        late_ms.clear()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
