"""Why a job waits, why it is not on a GPU, and letting it back where it was taken off."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from console.accounts.models import Role
from console.runs.models import Run
from console.scheduling import asking, avoid, rounds
from console.scheduling.models import AvoidEntry
from console.scheduling.plan import Code, Kind, Verdict
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, NOW, a_pool
from tests.console.scheduling.cast import a_round, a_waiting_job, live, sharing_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpus(grid):
    found = sharing_gpus(2)
    grid.update(live(*found))
    return found


@pytest.fixture
def operator(client):
    client.force_login(a_user("okafor", Role.OPERATOR))
    return client


def page(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


# --- the page of a job --------------------------------------------------------------------


def test_a_job_says_what_keeps_it_waiting_and_what_would_help(operator, gpus):
    job = a_waiting_job(memory_bytes=999 * GIB)
    row = a_round()
    text = page(operator, f"/jobs/{job.pk}/")
    assert "Memory does not fit" in text
    assert "would fit with" in text
    assert f"/rounds/{row.pk}/?show=waiting&amp;code=memory" in text


def test_before_any_round_it_says_so(operator, gpus):
    assert "No round has looked at it yet" in page(operator, f"/jobs/{a_waiting_job().pk}/")


def test_it_says_where_it_does_not_go_and_an_operator_lifts_it(operator, gpus):
    job, now = a_waiting_job(), timezone.now()
    avoid.add(job.pk, [gpus[0].pk], "overload", "SM activity over its limit", now)
    entry = AvoidEntry.objects.get()
    text = page(operator, f"/jobs/{job.pk}/")
    assert "SM activity over its limit" in text
    assert f"/avoids/{entry.pk}/lift/" in text
    assert "do so once more" in page(operator, f"/avoids/{entry.pk}/lift/")
    operator.post(f"/avoids/{entry.pk}/lift/", {"reason": "Trial"})
    assert "SM activity over its limit" not in page(operator, f"/jobs/{job.pk}/")


def test_the_api_lists_and_lifts_them(operator, gpus):
    avoid.add(a_waiting_job().pk, [gpus[0].pk], "overload", "too much", timezone.now())
    (entry,) = operator.get("/api/v1/avoids/").json()["results"]
    address = f"/api/v1/avoids/{entry['id']}/lift/"
    assert operator.post(address, {"reason": "Trial"}).status_code == 204
    assert operator.post(address, {"reason": "Trial"}).status_code == 404


# --- why not here -------------------------------------------------------------------------


def could(snapshot, job_id, gpu_id):
    return Verdict(
        Kind.PLACE,
        Code.BEST,
        "It could run there.",
        job_id=job_id,
        gpu_id=gpu_id,
        throughput=0.8,
        throughput_low=0.7,
        throughput_high=0.9,
    )


def ask(client, job: str = "resnet-31", gpu: str = "node-01 / GPU 1"):
    return client.post("/rounds/why/", {"job": job, "gpu": gpu})


@pytest.fixture
def asked(operator, gpus):
    """The address of a question that waits for its answer."""
    a_waiting_job()
    return ask(operator).url


def test_a_question_is_answered_by_a_worker(operator, asked, gpus, monkeypatch):
    monkeypatch.setattr(rounds, "live", lambda: live(*gpus))
    assert "A worker reads the fleet" in page(operator, asked)
    asking.answer_waiting("worker-1", NOW, could)
    text = page(operator, asked)
    assert "It could run there." in text
    assert "90 % between" in text


def test_a_question_whose_worker_fails_says_so(operator, asked):
    Run.objects.update(state="FAILED", message="The database went away.")
    assert "The database went away." in page(operator, asked)


@pytest.mark.parametrize("gpu", ["node-01/1", "node-01 gpu 1", " node-01 / GPU 1 "])
def test_a_gpu_may_be_written_in_more_than_one_way(operator, gpus, gpu):
    a_waiting_job()
    assert ask(operator, gpu=gpu).status_code == 302


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"job": "nobody"}, "No job that waits or runs"),
        ({"gpu": "node-99 / GPU 1"}, "No GPU is called"),
        ({"gpu": "the big one"}, "No GPU is called"),
    ],
)
def test_what_names_nothing_is_said(operator, gpus, typed, says):
    a_waiting_job()
    answer = ask(operator, **typed)
    assert answer.status_code == 422
    assert says in answer.content.decode()


def test_nobody_asks_about_a_gpu_or_reads_of_one_that_they_may_not_see(client, asked):
    client.force_login(a_user("stranger", Role.VIEWER, pool=a_pool("batch")))
    assert ask(client).status_code == 422
    assert "A worker reads the fleet" not in page(client, asked)


def test_an_address_that_names_no_question_is_not_found(operator):
    assert operator.get("/rounds/why/?asked=luck").status_code == 404
    assert "Ask the matching" in page(operator, f"/rounds/why/?asked={uuid4()}")


def test_old_questions_are_forgotten(operator, asked):
    Run.objects.update(created_at=timezone.now() - timedelta(hours=2))
    ask(operator)
    assert Run.objects.count() == 1
