"""`one_life.py FOLDER ROUND [--last]`: one life of an agent with real jobs, to be ended by SIGKILL.

GPU 0 holds one long job under xCUDA through all lives, GPU 1 a short one of each round. The last
life stops all that still runs and prints what its node has told of ends and evictions.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import msgspec

from agents.actuators.cgroup import Groups
from agents.wire.names import EventKind
from tests.agents.actuators.conftest import Bench
from tests.agents.cast import PROFILE, Stage, desired, placement

TICK_S = 0.01
TOLD = (EventKind.PLACEMENT_ENDED, EventKind.EVICTION_STARTED, EventKind.EVICTION_PHASE)
LONG_ID = "01920000-0000-7000-8000-0000000000aa"
MEMORY_QUOTA_BYTES = 3 << 30


def short_id(number: int) -> str:
    return f"01920000-0000-7000-8000-{number:012x}"


def main(folder: Path, number: int, is_last: bool) -> None:
    bench = Bench(folder)
    if (folder / "groups").exists():
        bench.new_runtime(groups=Groups(Path((folder / "groups").read_text())))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    stage = Stage(folder / "state", time.monotonic(), bench.runtime)
    stage.run(2)
    wanted = () if is_last else (_long(bench), _short(bench, number))
    stage.order(desired(*wanted, generation=number))
    for tick in itertools.count():
        stage.tick(tick)
        if is_last and not list(stage.node._guests):
            break
        time.sleep(TICK_S)
        stage.now += TICK_S
    take_all(stage)
    sys.stdout.write(json.dumps({kind: of_kind(stage, kind) for kind in TOLD}) + "\n")
    stage.die()


def of_kind(stage: Stage, kind: EventKind) -> list[dict[str, object]]:
    named = ({"id": one.placement_id, "eviction": one.eviction_id} for one in stage.told(kind))
    return [names | one.data for names, one in zip(named, stage.told(kind), strict=True)]


def take_all(stage: Stage) -> None:
    """All events of all lives: the next batch comes when the last one is acknowledged."""
    before = -1
    while before < len(stage.events):
        before = len(stage.events)
        stage.receive()
        stage.node.outbox.acknowledge(stage.events[-1].seq)


def _long(bench: Bench):
    """It says each of its starts, as the short ones do."""
    words = f"echo ran >> {bench.folder}/{LONG_ID}; exec $programs/loop launch --seconds 600"
    return placement(
        placement_id=LONG_ID,
        command=bench.command(words),
        memory_quota_bytes=MEMORY_QUOTA_BYTES,
        profile=msgspec.structs.replace(PROFILE, name="long"),
    )


def _short(bench: Bench, number: int):
    mine = short_id(number)
    words = f"echo ran >> {bench.folder}/{mine}; sleep 0.1; exit 3"
    return placement(placement_id=mine, gpu_index=1, command=bench.command(words))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "--last" in sys.argv)
