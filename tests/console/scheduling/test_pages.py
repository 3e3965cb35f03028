"""The pages and the API of rounds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console.accounts.models import Role
from console.evictions.models import Eviction
from console.scheduling import prices
from console.scheduling.filters import DecisionFilter
from console.scheduling.models import Decision, MovePlan, Placement, Round
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, NOW, a_pool
from tests.console.scheduling.cast import a_round, a_running, a_waiting_job, live, sharing_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided(grid):
    """A round that placed one job, kept one, and left one waiting."""
    gpus = sharing_gpus(2)
    grid.update(live(*gpus))
    a_running(a_waiting_job("runs"), gpus[0])
    a_waiting_job("lands")
    a_waiting_job("waits", memory_bytes=999 * GIB)
    return a_round()


@pytest.fixture
def reader(client):
    client.force_login(a_user("lindqvist", Role.VIEWER))
    return client


def page(reader, address):
    answer = reader.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_without_rounds_the_list_says_how_they_begin(reader):
    assert "No round yet" in page(reader, "/rounds/")


def test_the_list_says_what_each_round_did(reader, decided):
    text = page(reader, "/rounds/")
    assert f"/rounds/{decided.pk}/" in text
    assert "Proven optimal" in text


def test_skipped_calls_stand_in_the_list_with_their_reason(reader, decided):
    Round.objects.create(
        kind="enforce", state="SKIPPED", started_at=NOW, skipped_why="It was late."
    )
    text = page(reader, "/rounds/?state=SKIPPED")
    assert "It was late." in text
    assert "Proven optimal" not in text.split("<tbody")[1]


def test_a_result_without_proof_is_not_called_optimal(reader, decided):
    Round.objects.update(upper_bound=decided.upper_bound + 0.01)
    assert "Not proven" in page(reader, "/rounds/")


def test_a_failed_round_says_why(reader):
    row = Round.objects.create(kind="enforce", state="FAILED", started_at=NOW, error="No disk.")
    assert "No disk." in page(reader, f"/rounds/{row.pk}/")


@pytest.mark.parametrize(
    ("show", "job", "words"),
    [
        ("placed", "lands", "No other job could run there"),
        ("kept", "runs", "it has only just started"),
        ("waiting", "waits", "no open GPU has that"),
    ],
)
def test_each_list_says_why(reader, decided, show, job, words):
    text = page(reader, f"/rounds/{decided.pk}/?show={show}")
    assert job in text
    assert words in text


def test_a_list_is_searched_by_job_and_by_node(reader, decided):
    address = f"/rounds/{decided.pk}/?show=waiting&q="
    assert "waits</a>" in page(reader, f"{address}wait")
    assert "Nothing matches" in page(reader, f"{address}nobody")


def test_a_search_joins_no_names_to_decisions(decided):
    rows = DecisionFilter({"q": "run"}, Decision.objects.filter(round=decided)).qs
    assert "JOIN" not in str(rows.order_by("pk").query).split("WHERE")[0]
    assert [one.job.name for one in rows] == ["runs"]


def test_a_round_is_set_beside_the_one_before_in_gpus_as_well(reader, decided):
    Round.objects.filter(pk=decided.pk).update(predicted_gpus=1.5, objective=3.0)
    later = Round.objects.create(
        kind=decided.kind, state="DONE", started_at=decided.started_at + timedelta(seconds=60),
        predicted_gpus=1.75, objective=3.5, previous_objective=3.0,
    )  # fmt: skip
    text = page(reader, f"/rounds/{later.pk}/")
    assert "+0.25\u00a0GPUs" in text
    assert "<dt>Gain in worth</dt><dd>+0.50</dd>" in text


def test_a_kept_gpu_is_worth_its_pair_and_no_restart(reader, decided):
    Decision.objects.filter(kind="keep").update(price=17.0, weight=0.85)
    text = page(reader, f"/rounds/{decided.pk}/?show=kept")
    assert ">0.85</td>" in text
    assert "17.00" not in text


@pytest.mark.parametrize(
    ("price", "worth", "told", "restarts"),
    [(0.4, 0.8, 0.4, False), (17.0, 0.8, 0.8, True), (0.4, None, 0.4, False)],
)
def test_a_price_beyond_its_pair_is_a_restart(price, worth, told, restarts):
    found = prices.of_kept(price, worth)
    assert (found.worth, found.restarts) == (told, restarts)
    assert ("start again" in found.sentence) is restarts


def test_moves_stand_first_with_what_became_of_them(reader, decided):
    placement = Placement.objects.get(job__name="runs")
    facts = {"gain": 0.21, "cost_work_s": 240, "pays_back_s": 1_140}
    MovePlan.objects.create(round=decided, state="SETTLED", state_since=NOW, proposed_at=NOW)
    Eviction.objects.create(
        placement=placement,
        gpu=placement.gpu,
        round=decided,
        origin="move",
        state="REJECTED",
        state_since=NOW,
        proposed_at=NOW,
        why="It pays",
        evidence=facts,
    )
    text = page(reader, f"/rounds/{decided.pk}/")
    assert "Kept running" in text
    assert "0.21" in text


def test_a_round_without_its_sentences_says_so(reader, decided):
    Decision.objects.all().delete()
    assert "Only the figures are left" in page(reader, f"/rounds/{decided.pk}/")


def test_somebody_of_another_pool_sees_the_round_and_not_its_gpus(client, decided):
    client.force_login(a_user("stranger", Role.VIEWER, pool=a_pool("batch")))
    text = page(client, f"/rounds/{decided.pk}/?show=placed")
    assert "lands" not in text


def test_a_round_costs_few_queries(reader, decided, django_assert_max_num_queries):
    with django_assert_max_num_queries(14):
        page(reader, f"/rounds/{decided.pk}/?show=waiting")


# --- the API ------------------------------------------------------------------------------


def test_the_api_says_whether_a_round_is_proven(reader, decided):
    answer = reader.get(f"/api/v1/rounds/{decided.pk}/").json()
    assert answer["proven_optimal"] is True
    assert answer["placed"] == 1


def test_the_api_lists_decisions_by_reason(reader, decided):
    answer = reader.get(f"/api/v1/rounds/{decided.pk}/decisions/?code=memory").json()
    assert [row["job_name"] for row in answer["results"]] == ["waits"]


def test_the_api_lists_placements(reader, decided):
    answer = reader.get("/api/v1/placements/?state=DESIRED").json()
    assert [row["job_name"] for row in answer["results"]] == ["lands"]


def test_nobody_places_by_the_api(reader, decided):
    assert reader.post("/api/v1/placements/", {}).status_code == 405
