from __future__ import annotations

import time

import pytest

from console.telemetry import links
from console.telemetry.allowance import Allowance
from console.telemetry.links import Links


class Link:
    connection, token_sha256, heard = "here:1", "", False

    def __init__(self) -> None:
        self.renewed, self.left = 0, []

    def generation_is(self, generation: int) -> None: ...

    def renew(self) -> None:
        self.renewed += 1

    def leave(self, code: int, reason: str) -> None:
        self.left.append(code)


async def nobody(*asked):
    raise AssertionError("asked")


@pytest.fixture
def crowd():
    made = Links(nobody)
    made.polled_at = time.monotonic()
    for node_id in range(1_000):
        made.attach(node_id, Link())
    return made


async def test_leases_are_renewed_a_few_at_a_time_and_all_in_time(crowd):
    steps = round(links.RENEW_AFTER_S / links.RENEW_STEP_S)
    all_of_them = list(crowd._links.values())
    for step in range(steps):
        before = sum(link.renewed for link in all_of_them)
        await crowd.renew()
        assert sum(link.renewed for link in all_of_them) - before <= 1 + len(crowd) / steps, step
    assert {link.renewed for link in all_of_them} <= {1, 2}


async def test_one_that_left_is_not_renewed_and_one_that_came_back_has_one_place(crowd):
    old, new = crowd._links[3], Link()
    crowd.detach(3, old)
    crowd.attach(3, new)
    for _ in range(round(links.RENEW_AFTER_S / links.RENEW_STEP_S) + 1):
        await crowd.renew()
    assert old.renewed == 0
    assert new.renewed in (1, 2)
    assert len(crowd._round) == 1_000


async def test_all_are_told_to_move_within_a_second(crowd, monkeypatch):
    pauses: list[float] = []

    async def sleep(duration_s: float) -> None:
        pauses.append(duration_s)

    monkeypatch.setattr(links.asyncio, "sleep", sleep)
    all_of_them = list(crowd._links.values())
    await crowd.hand_over()
    assert all(link.left == [links.MOVE] for link in all_of_them)
    assert sum(pauses) == pytest.approx(len(all_of_them) / links.MOVES_PER_S, rel=0.1)


def test_an_allowance_lasts_for_its_burst_and_then_for_its_rate():
    allowance = Allowance(2.0, 3.0, 0.0)
    assert [allowance.takes(0.0) for _ in range(5)] == [True, True, True, False, False]
    assert [allowance.takes(1.0) for _ in range(3)] == [True, True, False]
    assert [allowance.takes(99.0) for _ in range(4)] == [True, True, True, False]
