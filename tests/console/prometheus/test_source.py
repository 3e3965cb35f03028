"""The customer's Prometheus: tried before it is saved, asked with bounds, kept for pages alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from console.accounts.models import Role
from console.audit.models import Entry
from console.errors import Invalid, Unavailable
from console.prometheus import answers, asking, mapping, services
from console.prometheus.answers import Sample
from console.prometheus.mapping import Place, Rule
from console.prometheus.models import Answer, Source
from console.prometheus.services import Wanted
from tests.console.telemetry.cast import node, person, service

NOW = datetime(2026, 11, 27, 10, 38, tzinfo=UTC)
P99 = "histogram_quantile(0.99, sum by (le, job, instance) (rate(latency_bucket[1m])))"
QPS = "sum by (job) (rate(requests_total[1m]))"


def vector(*series: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": labels, "value": [1, value]} for labels, value in series]
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result}}
    ).encode()


class Stub(BaseHTTPRequestHandler):
    """Answers what it was told to: {query: (code, body, headers)}."""

    told: dict[str, tuple[int, bytes, dict[str, str]]]
    heard: list[str]

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        self.heard.append(self.headers.get("Authorization", ""))
        code, body, headers = self.told[query]
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stub() -> Iterator[type[Stub]]:
    handler = type("Told", (Stub,), {
        "heard": [],
        "told": {
            P99: (200, vector(
                ({"job": "search-rank", "instance": "node-07:9400"}, "0.0315"),
                ({"job": "unknown", "instance": "x:1"}, "1"),
            ), {}),
            QPS: (200, vector(({"job": "search-rank"}, "420.5")), {}),
        },
    })  # fmt: skip
    server = HTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def wanted(stub: type[Stub], **changes: str) -> Wanted:
    return Wanted(**{
        "url": stub.url, "p99_query": P99, "qps_query": QPS,
        "service_label": "job", "node_label": "instance", **changes,
    })  # fmt: skip


# --- pure -----------------------------------------------------------------------------------


def test_nan_is_missing_and_no_zero():
    (sample,) = answers.read(vector(({"job": "a"}, "NaN")))
    assert sample.value is None


@pytest.mark.parametrize(
    "body",
    [
        b"<html>", b"[]", b'{"status":"success"}', b"null",
        b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
        vector(*[({}, "1")] * 2_001),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused_in_words(body):
    with pytest.raises(Invalid):
        answers.read(body)


def test_a_series_is_of_the_instance_that_alone_fits_its_labels():
    places = [Place("a", "n1", 0), Place("a", "n1", 1), Place("a", "n2", 0)]
    samples = [
        Sample({"s": "a", "i": "n2:9400"}, 1.0),
        Sample({"s": "a", "i": "n1", "g": "1"}, 2.0),
        Sample({"s": "b"}, 3.0),
    ]
    mine, others = mapping.match(samples, Rule("s", "i"), places)
    assert [one.instance for one in mine] == [places[2], None]
    assert others == samples[2:]
    mine, _ = mapping.match(samples[1:2], Rule("s", "i", "g"), places)
    assert mine[0].instance == places[1]


# --- asking ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://h", "http://u:p@h", "http://169.254.169.254", "http://["]
)
def test_an_address_that_is_none_of_a_prometheus_is_not_asked(url):
    with pytest.raises(Invalid):
        asking.ask(url, "up")


def test_a_redirect_is_not_followed(stub):
    stub.told["up"] = (302, b"", {"Location": "file:///etc/passwd"})
    with pytest.raises(Unavailable, match="not followed"):
        asking.ask(stub.url, "up")


def test_an_answer_without_end_is_left(stub, monkeypatch):
    monkeypatch.setattr(asking, "MOST_BYTES", 1_000)
    stub.told["up"] = (200, b"x" * 2_000, {})
    with pytest.raises(Invalid, match="larger"):
        asking.ask(stub.url, "up")


def test_what_prometheus_says_of_a_wrong_query_is_told(stub):
    body = json.dumps({"status": "error", "error": "parse error at char 3"}).encode()
    stub.told["up{"] = (400, body, {})
    with pytest.raises(Invalid, match="parse error at char 3"):
        asking.ask(stub.url, "up{")


def test_the_secret_goes_with_the_question(stub, settings):
    settings.PROMETHEUS_AUTHORIZATION = "Bearer made-up"
    asking.ask(stub.url, QPS)
    assert stub.heard == ["Bearer made-up"]


def test_nobody_there_is_told_in_words():
    with pytest.raises(Unavailable, match="refuses the connection"):
        asking.ask("http://127.0.0.1:1", "up")


# --- saving and fetching --------------------------------------------------------------------


@pytest.fixture
def rank(db):
    return service(node().gpus.get(index=0))


def test_what_was_tried_is_saved_asked_and_kept(rank, stub):
    services.save(wanted(stub), person(role=Role.ADMIN), NOW)
    services.fetch(NOW)
    answer = Answer.objects.get()
    assert answer.service == rank
    assert answer.p99_ms == pytest.approx(31.5)
    assert answer.qps == 420.5
    assert Source.objects.get().fetched_at == NOW
    assert Entry.objects.filter(action="prometheus.save").count() == 1


def test_what_cannot_be_asked_is_not_saved(rank, stub):
    for changes in (
        {
            "p99_query": "",
        },
        {"service_label": "nothing"},
        {"url": "gopher://x"},
    ):
        with pytest.raises(Invalid):
            services.save(
                wanted(stub, **changes), person(f"a{len(changes)}{changes}"[:30], Role.ADMIN), NOW
            )
    assert not Source.objects.exists()


def test_a_fetch_that_fails_leaves_a_gap_and_says_why(rank, stub):
    services.save(wanted(stub), person(role=Role.ADMIN), NOW)
    stub.told[P99] = (500, b"oh", {})
    services.fetch(NOW)
    assert not Answer.objects.exists()
    assert "500" in Source.objects.get().failed_why


def test_the_form_tries_and_only_an_admin_may(client, rank, stub):
    fields = {**vars(wanted(stub)), "do": "try"}
    client.force_login(person(role=Role.OPERATOR))
    assert client.post(reverse("prometheus_save"), fields).status_code == 403
    client.force_login(person("admin", Role.ADMIN))
    page = client.post(reverse("prometheus_save"), fields)
    assert b"node-07 / GPU 0" in page.content
    assert b"31.5" in page.content
    assert not Source.objects.exists()
    wrong = client.post(reverse("prometheus_save"), fields | {"url": "http://127.0.0.1:1"})
    assert wrong.status_code == 400
    assert b"refuses the connection" in wrong.content


def test_the_page_of_a_service_shows_it_and_nothing_without_a_source(client, rank, stub):
    admin = person(role=Role.ADMIN)
    client.force_login(admin)
    address = reverse("service_prometheus", args=[rank.pk])
    assert client.get(address).content == b""
    services.save(wanted(stub), admin, NOW)
    services.fetch(datetime.now(UTC))
    html = client.get(address).content
    assert b"31.5" in html
    assert b"<script" not in html  # htmx would drop it, and the charts with it
    services.forget(admin, NOW)
    assert client.get(address).content == b""
    assert not Answer.objects.exists()
