from __future__ import annotations

import http.client
import threading
import time
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from console.metrics import server
from workers import counting
from workers.tasks import register

TOKEN = "made-up-scrape-token"


def task(name, asked_at=None):
    return SimpleNamespace(name=name, request=SimpleNamespace(asked_at=asked_at))


def value(name, **labels):
    return counting.REGISTRY.get_sample_value(name, labels)


def end(serving):
    """It looks twice a second whether it shall; nobody here waits for that."""

    def close():
        serving.shutdown()
        serving.server_close()

    threading.Thread(target=close).start()


def test_a_task_is_timed_from_the_bell_to_its_end():
    one = task("made.up.timed", asked_at=time.time() - 2)
    before = value("muxflow_tasks_running")
    counting._begins("id-1", one)
    assert value("muxflow_tasks_running") == before + 1
    counting._ends("id-1", one)
    assert value("muxflow_tasks_running") == before
    assert value("muxflow_task_duration_seconds_count", task="made.up.timed") == 1
    assert 2 <= value("muxflow_task_wait_seconds_sum", task="made.up.timed") < 3


def test_a_failure_is_counted_with_who_is_to_blame():
    counting._fails(task("made.up.failing"), OperationalError("gone"))
    assert value("muxflow_task_failures_total", task="made.up.failing", cause="database") == 1


def test_a_task_that_another_worker_is_at_is_counted(monkeypatch):
    monkeypatch.setattr(register.leases, "acquire", lambda *_: None)
    monkeypatch.setattr(register, "task", lambda name: lambda function: function)
    register.task_alone("made.up.alone")(lambda: pytest.fail("it ran"))()
    assert value("muxflow_task_held_total", task="made.up.alone") == 1


@pytest.mark.parametrize(
    ("token", "brought", "status"), [("", "", 200), (TOKEN, "", 401), (TOKEN, TOKEN, 200)]
)
def test_a_worker_shows_what_it_counts(token, brought, status):
    shown = server.serve("127.0.0.1", 0, token)
    connection = http.client.HTTPConnection("127.0.0.1", shown.server_port, timeout=5)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {brought}"})
    with connection.getresponse() as answer:
        assert answer.status == status
        assert (b"muxflow_tasks_running" in answer.read()) == (status == 200)
    connection.close()
    end(shown)


def test_an_address_that_others_reach_is_closed_without_a_token():
    told = []
    closed = server.guarded(lambda *_: pytest.fail("it was open"), "")
    list(closed({}, lambda status, headers: told.append(status)))
    assert told == ["403 Forbidden"]


def test_a_port_that_is_taken_ends_no_worker():
    first = server.serve("127.0.0.1", 0, "")
    assert server.serve("127.0.0.1", first.server_port, "") is None
    end(first)
