"""Each task runs under its lease, and the beat rings every task that the console names."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

import workers.app  # noqa: F401  (registers all tasks)
from console import doorbell
from console.queue import app
from console.runs import leases
from console.runs.models import Lease
from workers.tasks.register import holder, task_alone


def test_every_bell_has_a_task_and_every_task_a_period():
    bells = {getattr(doorbell, name) for name in dir(doorbell) if name.isupper()}
    rung = {entry["task"] for entry in app.conf.beat_schedule.values()}
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert bells <= rung == ours


def test_a_bell_that_nobody_heard_is_void_by_the_next_one():
    for entry in app.conf.beat_schedule.values():
        assert entry["options"]["expires"] <= entry["schedule"]


@pytest.fixture
def work():
    done = []

    @task_alone("test.work", lease_s=10)
    def work() -> None:
        done.append(1)

    yield work, done
    app.tasks.unregister("test.work")


@pytest.mark.django_db
def test_a_task_gives_its_lease_back(work):
    do, done = work
    do()
    do()
    assert len(done) == 2
    assert Lease.objects.get(name="test.work").holder == ""


@pytest.mark.django_db
def test_a_task_that_another_worker_does_is_left_to_it(work):
    do, done = work
    leases.acquire("test.work", "another", 10, timezone.now())
    do()
    assert done == []


@pytest.mark.django_db
def test_a_dead_worker_holds_up_its_task_only_for_the_lease(work):
    do, done = work
    leases.acquire("test.work", "dead", 10, timezone.now() - timedelta(seconds=11))
    do()
    assert done == [1]


def test_the_holder_names_this_thread():
    assert holder() == holder()
    assert holder().count(":") == 2
