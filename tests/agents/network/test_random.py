"""Faults of all kinds in any order, between orders, events, restarts of either side: in the end the
node follows the last order, and the console knows all that happened, once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agents.orders import NONCES_KEPT
from agents.wire import codec
from agents.wire.limits import MAX_MESSAGE_BYTES
from agents.wire.messages import Envelope
from tests.agents.cast import desired, placement
from tests.agents.network.proxy import Fault
from tests.agents.network.site import Trial, be_quick, trial

# `make thorough` makes two hundred trials, the ordinary tests a few.
ORDINARY = 4
UP = ("hello", "events", "status", "telemetry")
DOWN = ("welcome", "event_ack", "envelope")
OTHER_KEY = codec.node_key(b"another console", "17")


def job_id(number: int) -> str:
    return f"01920000-0000-7000-8000-{number:012x}"


class Hand:
    """What may be done to a trial, a word each."""

    def __init__(self, it: Trial) -> None:
        self.it = it
        self.recorded: list[Envelope] = []
        self._jobs = 0
        self._record()

    def _record(self) -> None:
        send = self.it.console.send

        async def recording(message):
            if isinstance(message, Envelope):
                self.recorded = [*self.recorded[-20:], message]
            await send(message)

        self.it.console.send = recording  # type: ignore[method-assign]

    async def harm_up(self, number: int) -> None:
        self.it.proxy.up.harm(UP[number % 4], list(Fault)[number % 5])

    async def harm_down(self, number: int) -> None:
        self.it.proxy.down.harm(DOWN[number % 3], list(Fault)[number % 5])

    async def cut(self, number: int) -> None:
        self.it.proxy.cut()

    async def unplug(self, number: int) -> None:
        self.it.proxy.unplug()

    async def blackhole(self, number: int) -> None:
        self.it.proxy.blackhole()

    async def slow(self, number: int) -> None:
        self.it.proxy.up.bytes_per_s = 8_000.0 * (1 + number % 4)

    async def heal(self, number: int) -> None:
        self.it.proxy.heal()

    async def restart_console(self, number: int) -> None:
        await self.it.console.restart(away_s=0.02 * (number % 5))

    async def kill_agent(self, number: int) -> None:
        await self.it.site.die()
        self.it.site.begin()

    async def tell(self, number: int) -> None:
        self.it.site.tell(1 + number % 7, why="x" * (10 * number))

    async def place(self, number: int) -> None:
        """A new job in the place of the old one."""
        self._jobs += 1
        await self.it.order(desired(placement(placement_id=job_id(self._jobs))))

    async def place_for_a_moment(self, number: int) -> None:
        """Its lease runs out unless the console is there to renew it."""
        self._jobs += 1
        await self.it.order(desired(placement(placement_id=job_id(self._jobs)), lease_s=0.6))

    async def forge(self, number: int) -> None:
        key, self.it.console.key = self.it.console.key, OTHER_KEY
        await self.it.console.send_order(self._state(self.it.generation + 7))
        self.it.console.key = key

    async def repeat_old(self, number: int) -> None:
        await self.it.console.send_order(self._state(max(1, self.it.generation - 1 - number % 3)))

    async def replay(self, number: int) -> None:
        if self.recorded:
            await self.it.console.send(self.recorded[number % len(self.recorded)])

    async def wait(self, number: int) -> None:
        await asyncio.sleep(0.02 * (number % 16))

    def _state(self, generation: int):
        return msgspec.structs.replace(desired(), generation=generation)


DEEDS = [name for name in vars(Hand) if not name.startswith("_")]


async def go_through(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with trial(Path(folder)) as it:
            hand = Hand(it)
            await it.order(desired())
            for name, number in steps:
                await getattr(hand, name)(number)
                await asyncio.sleep(0.01)
                check_bounds(it)
            it.proxy.heal()
            await hand.place(0)
            await it.settled(timeout_s=30)


def check_bounds(it: Trial) -> None:
    socket = it.site.link._socket
    assert socket is None or socket.transport.get_write_buffer_size() < 2 * MAX_MESSAGE_BYTES
    assert len(it.site.orders._nonces) <= NONCES_KEPT


@pytest.mark.thorough
@pytest.mark.timeout(7_200)
@settings(
    max_examples=max(ORDINARY, settings().max_examples // 50),
    phases=(Phase.explicit, Phase.generate),  # each example takes seconds: they are not shrunk
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 99)), min_size=8, max_size=24))
def test_faults_in_any_order_leave_both_sides_right(steps):
    with pytest.MonkeyPatch.context() as monkeypatch:
        be_quick(monkeypatch)
        asyncio.run(go_through(steps))
