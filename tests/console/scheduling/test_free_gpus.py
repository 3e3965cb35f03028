"""Which job is measured on which free GPU, without a database."""

from __future__ import annotations

from uuid import UUID

import pytest

from console.scheduling.free_gpus import Free, Room, Wanting, choose

GIB = 1 << 30
SMALL = Free(1, "A10", "media", 22 * GIB, frozenset({"rack=r4"}), 8.0, 64 * GIB)
LARGE = Free(2, "A100", "web", 76 * GIB, frozenset({"rack=r1"}), 16.0, 128 * GIB)
ROOM = Room(at_once=8)


def a_job(number=1, key="", team="vision", memory_bytes=8 * GIB, **needs):
    return Wanting(UUID(int=number), key, team, memory_bytes, **needs)


def test_the_largest_card_that_it_may_use():
    assert choose([a_job()], [SMALL, LARGE], ROOM) == {UUID(int=1): 2}
    only = a_job(gpu_models=frozenset({"A10"}))
    assert choose([only], [SMALL, LARGE], ROOM) == {UUID(int=1): 1}


def test_the_one_whose_turn_it_is_first():
    first, second = a_job(1), a_job(2)
    assert choose([first, second], [SMALL], ROOM) == {first.id: 1}


@pytest.mark.parametrize(
    "needs",
    [
        {"pools": frozenset({"ads"})},
        {"gpu_models": frozenset({"H100"})},
        {"labels": frozenset({"rack=r9"})},
        {"cpu_cores": 17.0},
        {"host_memory_bytes": 200 * GIB},
        {"memory_bytes": 80 * GIB},
    ],
)
def test_what_it_needs_is_there_or_it_waits(needs):
    assert choose([a_job(**needs)], [SMALL, LARGE], ROOM) == {}


def test_what_a_node_does_not_tell_forbids_nothing():
    silent = Free(3, "A10", "media", 22 * GIB)
    assert choose([a_job(cpu_cores=64.0)], [silent], ROOM) == {UUID(int=1): 3}


def test_of_one_template_one_is_measured_at_a_time():
    alike = [a_job(number, "k") for number in (1, 2)]
    assert list(choose(alike, [SMALL, LARGE], ROOM)) == [UUID(int=1)]
    assert choose(alike, [SMALL], Room(8, keys=frozenset({"k"}))) == {}
    unlike = [a_job(number, "") for number in (1, 2)]
    assert len(choose(unlike, [SMALL, LARGE], ROOM)) == 2


def test_no_more_than_may_be_at_once_and_than_its_team_may():
    jobs = [a_job(number) for number in (1, 2)]
    assert len(choose(jobs, [SMALL, LARGE], Room(1))) == 1
    assert len(choose(jobs, [SMALL, LARGE], Room(8, {"vision": 1}))) == 1
    assert choose(jobs, [SMALL, LARGE], Room(8, {"vision": 0})) == {}


def test_it_does_not_come_back_to_where_it_was_taken_off():
    job = a_job()
    assert choose([job], [SMALL, LARGE], Room(8, avoid=frozenset({(job.id, 2)}))) == {job.id: 1}
