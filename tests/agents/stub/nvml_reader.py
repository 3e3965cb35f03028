"""A process that reads the stand-in NVML with the collector of a real node: a reading for each line
on its input, as one line of JSON. The line names our jobs: placement id → pid."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence

import msgspec

from agents.collectors.attribution import OfflineJob
from agents.collectors.base import NodeReading, Source
from agents.collectors.card import Card
from agents.collectors.gpm import LEAST_S, GpmSource
from agents.collectors.nvml import Nvml, PcieSource, SignalSource
from agents.collectors.processes import ProcessSource
from agents.collectors.real import RealCollector
from agents.supervisor import start_ticks
from agents.wire.names import SIGNALS, Signal

# GPM compares two samples, and the first look of all has none before it.
LEAST_LOOKS = 3


def main() -> None:
    nvml, jobs = Nvml(), list[OfflineJob]()
    lanes: list[list[Source]] = [[SignalSource(nvml), GpmSource(nvml)]]
    lanes += [[ProcessSource(nvml, lambda: jobs)], [PcieSource(nvml)]]
    cards = nvml.cards()
    collector = RealCollector(cards, lanes, dict)
    say("ready")
    for line in sys.stdin:
        jobs[:] = [
            OfflineJob(placement_id, 0, 40.0, pid, start_ticks(pid))
            for placement_id, pid in json.loads(line).items()
        ]
        readings = read(collector)
        say(json.dumps(told(cards, readings[-1], xids(readings))))
    collector.close()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def read(collector: RealCollector) -> list[NodeReading]:
    """Until every source has been asked anew and has answered; the last holds."""
    began, readings = time.monotonic(), list[NodeReading]()
    while len(readings) < LEAST_LOOKS or not answered(readings[-1], began):
        readings.append(collector.collect(time.monotonic()))
        collector.ask_others(time.monotonic())
        time.sleep(1.5 * LEAST_S)
    return readings


def answered(reading: NodeReading, since: float) -> bool:
    return all(look.at is not None and look.at >= since for look in reading.looks)


def xids(readings: Sequence[NodeReading]) -> list[list[float]]:
    """Of each GPU those that came, in order: each shows in one reading alone."""
    place = SIGNALS.index(Signal.XID)
    columns = zip(*(reading.gpus for reading in readings), strict=True)
    return [[gpu.values[place] for gpu in column if gpu.values[place]] for column in columns]


def told(
    cards: Sequence[Card], reading: NodeReading, came: Sequence[list[float]]
) -> list[dict[str, object]]:
    gpus = []
    for card, gpu, codes in zip(cards, reading.gpus, came, strict=True):
        signals = dict(zip(map(str, SIGNALS), gpu.values, strict=True))
        known = {name: value for name, value in signals.items() if value is not None}
        gpus.append(dataclasses.asdict(card) | msgspec.to_builtins(gpu) | known | {"xids": codes})
    return gpus


if __name__ == "__main__":
    main()
