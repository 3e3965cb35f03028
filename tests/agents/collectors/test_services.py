"""Pages of services over a real connection, hostile ones included."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from agents.collectors.base import Unavailable
from agents.collectors.fetch import Page, address
from agents.collectors.services import ServiceSource
from agents.sysmonitor.signals import POSITIONS
from agents.wire.messages import DesiredService
from agents.wire.names import Signal

METRIC = "http_request_duration_seconds"


def text(count):
    return (
        f"# TYPE {METRIC} histogram\n"
        f'{METRIC}_bucket{{le="0.1"}} {count}\n{METRIC}_bucket{{le="+Inf"}} {count}\n'
        f"{METRIC}_count {count}\n"
    )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.paths.append(self.path)
        status, body = self.server.answers.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words): ...


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.answers, server.paths = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def watch():
    """Makes sources for services on one GPU each, with the addresses given."""
    made = []

    def source(*urls):
        services = [DesiredService(f"s{gpu}", gpu, metrics_url=url) for gpu, url in enumerate(urls)]
        made.append(ServiceSource(lambda: services, {0: "GPU-0", 1: "GPU-1"}))
        return made[-1]

    yield source
    for each in made:
        each.close()


def pace(finding):
    values = finding.values
    return values[POSITIONS[Signal.ONLINE_P99]], values[POSITIONS[Signal.ONLINE_QPS]]


def test_two_looks_give_p99_and_load(server, watch):
    watched = watch(f"{server.url}/metrics")
    server.answers["/metrics"] = (200, text(100).encode())
    assert pace(watched.look(0.0)["GPU-0"]) == (None, None)
    server.answers["/metrics"] = (200, text(150).encode())
    assert pace(watched.look(1.0)["GPU-0"]) == (pytest.approx(99.0), 50.0)


def test_the_address_may_name_the_metric(server, watch):
    server.answers["/metrics?x=1"] = (200, b'own_ms_count 5\nown_ms{quantile="0.99"} 8\n')
    watched = watch(f"{server.url}/metrics?x=1#own_ms")
    watched.look(0.0)
    server.answers["/metrics?x=1"] = (200, b'own_ms_count 9\nown_ms{quantile="0.99"} 8\n')
    assert pace(watched.look(1.0)["GPU-0"]) == (8.0, 4.0)
    assert set(server.paths) == {"/metrics?x=1"}


def test_a_service_that_fails_says_why_and_stops_no_other(server, watch):
    server.answers["/metrics"] = (200, text(1).encode())
    watched = watch(f"{server.url}/absent", f"{server.url}/metrics")
    found = watched.look(0.0)
    assert "404" in found["GPU-0"].missing[Signal.ONLINE_P99]
    assert found["GPU-1"].missing == {}


class Pages:
    """Pages that the test makes fail."""

    def __init__(self):
        self.failing, self.reads = set(), []

    def __call__(self, url):
        return SimpleNamespace(read=lambda: self.read(url), close=lambda: None)

    def read(self, url):
        self.reads.append(url)
        if url in self.failing:
            raise Unavailable(f"{url} hangs")
        return text(len(self.reads))


def several(pages, *urls):
    services = [DesiredService(f"s{gpu}", gpu, metrics_url=url) for gpu, url in enumerate(urls)]
    uuids = {gpu: f"GPU-{gpu}" for gpu in range(len(urls))}
    return ServiceSource(lambda: services, uuids, pages)


def test_of_many_pages_that_hang_one_a_look_is_tried_again():
    pages = Pages()
    source = several(pages, "http://a", "http://b", "http://c", "http://d")
    pages.failing = {"http://a", "http://b", "http://c"}
    source.look(0.0)
    pages.reads.clear()
    for now in (1.0, 2.0, 3.0, 4.0):
        found = source.look(now)
    assert pages.reads.count("http://d") == 4
    assert [url for url in pages.reads if url != "http://d"] == ["http://a", "http://b", "http://c"]
    assert found["GPU-0"].missing[Signal.ONLINE_P99] == "http://a hangs"


def test_a_page_that_answers_again_is_read_again():
    pages = Pages()
    source = several(pages, "http://a")
    pages.failing = {"http://a"}
    source.look(0.0)
    pages.failing.clear()
    for now in (2.0, 3.0, 4.0):
        found = source.look(now)
    assert found["GPU-0"].missing == {}
    assert pace(found["GPU-0"])[1] == 1.0


def test_a_page_of_two_gpus_is_read_once_a_look():
    pages = Pages()
    source = several(pages, "http://a", "http://a")
    for now in (0.0, 1.0):
        found = source.look(now)
    assert len(pages.reads) == 2
    assert pace(found["GPU-0"]) == pace(found["GPU-1"]) == (pytest.approx(99.0), 1.0)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "not an http"),
        ("http://", "not an http"),
        ("http://[::1", "not an address"),
        ("http://h:99999/", "not an address"),
        ("http://h/#not a name", "not the name of a metric"),
    ],
)
def test_an_address_that_is_none_is_refused(watch, url, words):
    finding = watch(url).look(0.0)["GPU-0"]
    assert words in finding.missing[Signal.ONLINE_QPS]


def test_a_page_without_a_known_metric_says_how_to_name_one(server, watch):
    server.answers["/metrics"] = (200, b"# TYPE up gauge\nup 1\n")
    finding = watch(f"{server.url}/metrics").look(0.0)["GPU-0"]
    assert "#NAME" in finding.missing[Signal.ONLINE_P99]


def test_a_service_that_is_no_longer_wanted_is_let_go(server):
    server.answers["/metrics"] = (200, text(1).encode())
    services = [DesiredService("s", 0, metrics_url=f"{server.url}/metrics")]
    watched = ServiceSource(lambda: services, {0: "GPU-0"})
    watched.look(0.0)
    services.clear()
    assert watched.look(1.0) == {}
    assert watched._watched == {}


def test_a_page_is_read_over_one_connection(server):
    server.answers["/"] = (200, b"up 1\n")
    page = Page(server.url)
    page.read()
    connection = page._connection
    assert page.read() == "up 1\n"
    assert page._connection is connection
    page.close()


def test_a_connection_that_the_other_end_closed_is_made_anew(server):
    server.answers["/"] = (200, b"up 1\n")
    page = Page(server.url)
    page.read()
    page._connection.sock.shutdown(socket.SHUT_RDWR)
    assert page.read() == "up 1\n"
    page.close()


def test_a_page_that_is_too_long_is_refused(server):
    server.answers["/"] = (200, b"x" * 5_000)
    with pytest.raises(Unavailable, match="more than"):
        Page(server.url, most_bytes=4_000).read()


def test_a_redirect_is_not_followed(server):
    server.answers["/"] = (302, b"")
    with pytest.raises(Unavailable, match="302"):
        Page(server.url).read()
    assert server.paths == ["/"]


def test_nobody_at_home_is_said_so():
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        with pytest.raises(Unavailable, match="refused"):
            Page(f"http://127.0.0.1:{port}/").read()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nup", b"\x00\xff garbage\r\n\r\n"]
)
def test_an_answer_that_is_none_or_cut_off_is_refused(answer):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            connection.recv(4_096)
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Unavailable):
            Page(f"http://127.0.0.1:{listening.getsockname()[1]}/").read()
        thread.join()


def test_a_page_that_trickles_ends_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = threading.Event()

        def serve():
            connection, _ = listening.accept()
            connection.recv(4_096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
            while not done.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    break
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Unavailable, match="for longer than"):
            Page(f"http://127.0.0.1:{listening.getsockname()[1]}/", deadline_s=0.1).read()
        done.set()
        thread.join()


def test_an_address_keeps_its_query_and_drops_its_fragment():
    assert address("https://h:8443/m?a=b#c").path == "/m?a=b"
    assert address("http://h").path == "/"
