"""`apart.py FOLDER`, in a network namespace of its own: a console here, a real agent in another
namespace, and one cable between them that is pulled and plugged in again. Prints what came of it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

from agents.wire.names import EventKind
from tests.agents.agent_process import AgentProcess
from tests.agents.cast import PLACEMENT_ID, desired, placement
from tests.agents.fake_console import until
from tests.agents.network.site import StoringConsole

# Addresses for examples (RFC 5737); they exist in these two namespaces alone.
HERE, THERE = "192.0.2.1", "192.0.2.2"
JOB = placement(command=("sleep", "60"))
LEASE_S = 5.0


def ip(*words: str, within: tuple[str, ...] = ()) -> None:
    subprocess.run([*within, "ip", *words], check=True)


async def main(folder: Path) -> None:
    ip("link", "set", "lo", "up")
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=-1)
    holder.stdout.readline()
    try:
        within = ("nsenter", "--net", "--target", str(holder.pid))
        ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(holder.pid))
        for name, address, where in (("here", HERE, ()), ("there", THERE, within)):
            ip("address", "add", f"{address}/30", "dev", name, within=where)
            ip("link", "set", name, "up", within=where)
        async with StoringConsole(host=HERE) as console:
            agent = AgentProcess(folder, console.url, before=within)
            agent.start()
            try:
                sys.stdout.write(json.dumps(await pull_the_cable(console, agent)) + "\n")
            finally:
                agent.kill()
    finally:
        holder.kill()
        holder.wait()


async def pull_the_cable(console: StoringConsole, agent: AgentProcess) -> dict[str, object]:
    await until(lambda: console.hellos, timeout_s=30)
    await console.desire(desired(JOB, lease_s=LEASE_S))
    await until(lambda: EventKind.PLACEMENT_STARTED in kinds(console), timeout_s=30)
    ip("link", "set", "here", "down")
    pulled_at = time.monotonic()
    await until(lambda: agent.warnings(), timeout_s=20)
    noticed_s = time.monotonic() - pulled_at
    # The lease runs out there, and nobody can say so before the cable is back.
    await asyncio.sleep(max(0.0, LEASE_S + 1 - noticed_s))
    assert EventKind.PLACEMENT_ENDED not in kinds(console)
    ip("link", "set", "here", "up")
    await until(lambda: EventKind.PLACEMENT_ENDED in kinds(console), timeout_s=30)
    numbers = [event.seq for event in console.events]
    return {
        "ended": [
            event.data["reason"]
            for event in console.events
            if event.kind is EventKind.PLACEMENT_ENDED and event.placement_id == PLACEMENT_ID
        ],
        "in_order": numbers == list(range(numbers[0], numbers[0] + len(numbers))),
        "warnings": agent.warnings(),
    }


def kinds(console: StoringConsole) -> list[EventKind]:
    return [event.kind for event in console.events]


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
