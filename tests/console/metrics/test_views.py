from __future__ import annotations

import gzip

import pytest

from console import live_state
from console.metrics.exposition import Format, render
from console.metrics.fleet import page, store
from tests.console.metrics.cast import facts, parsed, value
from tests.console.telemetry.conftest import NO_REDIS

TOKEN = "made-up-scrape-token"
SCRAPER = {"authorization": f"Bearer {TOKEN}"}
OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
GZIP = {"accept-encoding": "gzip"}
ADDRESSES = ["/metrics", "/metrics/fleet"]


class Shelf:
    """As much of Redis as the page needs."""

    def __init__(self):
        self.kept = {}

    def get(self, key):
        return self.kept.get(key)


@pytest.fixture(autouse=True)
def shelf(settings, monkeypatch):
    settings.METRICS_TOKEN = TOKEN
    shelf = Shelf()
    monkeypatch.setattr(live_state, "client", lambda: shelf)
    return shelf


@pytest.fixture
def rendered(shelf):
    pages = render(page.families(facts({})))
    shelf.kept = {store._key(form): packed for form, packed in pages.items()}


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "brought", [{}, {"authorization": "Bearer x"}, {"authorization": f"Basic {TOKEN}"}]
)
def test_a_stranger_reads_nothing(client, rendered, address, brought):
    answer = client.get(address, headers=brought)
    assert (answer.status_code, answer["WWW-Authenticate"][:6]) == (401, "Bearer")
    assert "muxflow_" not in answer.content.decode()


@pytest.mark.parametrize("address", ADDRESSES)
def test_without_a_token_of_its_own_the_console_is_closed(client, settings, rendered, address):
    settings.METRICS_TOKEN = ""
    answer = client.get(address, headers={"authorization": "Bearer "})
    assert (answer.status_code, b"MUXFLOW_METRICS_TOKEN" in answer.content) == (403, True)


@pytest.mark.django_db
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_scrape_asks_the_database_nothing(client, rendered, django_assert_num_queries, address):
    with django_assert_num_queries(0):
        assert client.get(address, headers=SCRAPER).status_code == 200


def test_a_process_tells_of_itself_in_both_formats(client):
    answer = client.get("/metrics", headers=SCRAPER)
    lines, _ = parsed(answer.content.decode())
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert value(lines, "build_info") == 1
    assert lines["process_cpu_seconds_total"][()] > 0
    answer = client.get("/metrics", headers=SCRAPER | OPENMETRICS | GZIP)
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    lines, _ = parsed(gzip.decompress(answer.content).decode(), Format.OPENMETRICS)
    assert value(lines, "build_info") == 1


def test_the_page_of_the_fleet_goes_out_as_it_was_packed(client, rendered, shelf):
    answer = client.get("/metrics/fleet", headers=SCRAPER | OPENMETRICS | GZIP)
    assert answer.content == shelf.kept[store._key(Format.OPENMETRICS)]
    assert answer["Content-Encoding"] == "gzip"


def test_who_takes_no_gzip_gets_it_in_plain(client, rendered):
    answer = client.get("/metrics/fleet", headers=SCRAPER)
    lines, _ = parsed(b"".join(answer.streaming_content).decode())
    assert value(lines, "gpu_sm_activity_ratio") == 0.52


def test_without_a_fresh_page_there_is_none(client):
    answer = client.get("/metrics/fleet", headers=SCRAPER)
    assert (answer.status_code, b"worker" in answer.content) == (503, True)


def test_without_redis_there_is_no_page(client, settings, monkeypatch):
    monkeypatch.undo()
    settings.METRICS_TOKEN, settings.REDIS_URL = TOKEN, NO_REDIS
    live_state.client.cache_clear()
    assert client.get("/metrics/fleet", headers=SCRAPER).status_code == 503
    live_state.client.cache_clear()


def test_only_reading_is_possible(client):
    assert client.post("/metrics", headers=SCRAPER).status_code == 405
