"""The console's own web process over a synthetic fleet: `python -m …server` with the environment
of the console. Prints {"port", "session"} once it serves, and runs until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time

import django
import uvicorn

django.setup()

from django.core.management import call_command  # noqa: E402

from agents.wire.names import SharingMode  # noqa: E402
from console.inventory.models import Gpu, Node, Pool  # noqa: E402
from console.telemetry.hub import hub  # noqa: E402
from tests.benchmarks.map.synthetic import Fleet  # noqa: E402
from tests.benchmarks.telemetry.seed import session  # noqa: E402

CARD_BYTES = 80 << 30
POOLS = {"search-eu": 0.3, "ads-us": 0.25, "chat": 0.2, "vision": 0.15, "batch": 0.1}
PERIOD_S = 1.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2_500)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    enrol(given.nodes, given.gpus)
    print(json.dumps({"session": session()}), flush=True)
    asyncio.run(serve(given.port, given.seed))


def enrol(nodes: int, gpus: int) -> None:
    """Nodes in a few pools of unlike size, each with its GPUs."""
    pool_of = [Pool.objects.create(name=name, sharing_mode=SharingMode.ENFORCE) for name in POOLS]
    shares = [sum(list(POOLS.values())[: number + 1]) for number in range(len(POOLS))]
    now = django.utils.timezone.now()
    made = Node.objects.bulk_create(
        [
            Node(
                name=f"node-{number:04d}",
                pool=pool_of[next(i for i, end in enumerate(shares) if number < end * nodes + 1)],
                token_sha256=f"{number:064x}",
                state=Node.State.CONNECTED,
                state_since=now,
                labels={"rack": f"r{number // 32:02d}"},
            )
            for number in range(nodes)
        ],
        batch_size=500,
    )
    cards = [
        Gpu(
            node=node, index=index, uuid=f"GPU-{node.name}-{index}", model="A100 SXM4",
            memory_bytes=CARD_BYTES, power_limit_w=400, sm_clock_max_mhz=1410,
            sharing_mode=SharingMode.ENFORCE, state_since=now,
        )
        for node in made
        for index in range(gpus)
    ]  # fmt: skip
    Gpu.objects.bulk_create(cards, batch_size=500)


async def serve(port: int, seed: int) -> None:
    from console.serve import config  # only now: it looks for static files when it is loaded

    server = uvicorn.Server(config("127.0.0.1", port, None, 1, "critical"))
    feeding = asyncio.create_task(feed(seed))
    await server.serve()
    feeding.cancel()


async def feed(seed: int) -> None:
    """A sample of every GPU each second, as if agents had sent them."""
    while not (hub.is_running and hub.layout.epoch):
        await asyncio.sleep(0.05)
    fleet = Fleet(hub.layout.facts, seed)
    due = time.monotonic()
    while True:
        fleet.second(hub.grid, time.time())
        due += PERIOD_S
        await asyncio.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
