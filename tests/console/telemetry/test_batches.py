from __future__ import annotations

import asyncio

import pytest

from console.telemetry.batches import Batches, Displaced


async def test_what_is_asked_meanwhile_goes_into_the_next_call_in_order():
    calls: list[list[int]] = []
    gate = asyncio.Event()

    async def work(asked):
        calls.append(list(asked))
        await gate.wait()
        return {key: question * 2 for key, question in asked.items()}

    batches = Batches(work, most=3)
    asking = [asyncio.create_task(batches.ask(number, number)) for number in range(6)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*asking) == [0, 2, 4, 6, 8, 10]
    assert [number for call in calls for number in call] == list(range(6))
    assert max(map(len, calls)) == 3


async def test_a_failure_is_its_own_alone_and_one_of_the_call_is_everybodys():
    async def one_fails(asked):
        return {key: ValueError("no") if key == 1 else key for key in asked}

    async def all_fail(asked):
        raise OSError("gone")

    batches = Batches(one_fails, most=9)
    answers = await asyncio.gather(*(batches.ask(k, k) for k in range(3)), return_exceptions=True)
    assert (answers[0], answers[2]) == (0, 2)
    assert isinstance(answers[1], ValueError)
    broken = Batches(all_fail, most=9)
    answers = await asyncio.gather(*(broken.ask(k, k) for k in range(2)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [OSError, OSError]


async def test_whoever_asks_again_displaces_his_first_question():
    async def work(asked):
        return dict(asked)

    batches = Batches(work, most=9)
    first = asyncio.create_task(batches.ask("node", 1))
    second = asyncio.create_task(batches.ask("node", 2))
    with pytest.raises(Displaced):
        await first
    assert await second == 2
    assert len(batches) == 0


async def test_one_who_is_gone_holds_nobody_up():
    async def work(asked):
        return dict(asked)

    batches = Batches(work, most=9)
    gone = asyncio.create_task(batches.ask(1, 1))
    other = asyncio.create_task(batches.ask(2, 2))
    await asyncio.sleep(0)
    gone.cancel()
    assert await other == 2
