"""The responder, over real sockets on the loopback."""

from __future__ import annotations

import asyncio

import pytest

from agents import loop
from agents.metrics import server
from agents.metrics.server import MetricsServer


@pytest.fixture
async def ask():
    served = MetricsServer(lambda: "m 1\n")
    port = await served.start(0)

    async def ask(request):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        if request[-4:] != b"\r\n\r\n":
            writer.write_eof()
        answer = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        return answer

    yield ask
    served.close()


async def test_the_page(ask):
    head, _, body = (await ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).partition("\r\n\r\n")
    assert head.splitlines()[0] == "HTTP/1.1 200 OK"
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    assert "Content-Length: 4" in head
    assert body == "m 1\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", 200),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * server.MAX_REQUEST_BYTES + b"\r\n\r\n", 400),
    ],
)
async def test_what_else_is_asked(ask, request_bytes, status):
    assert (await ask(request_bytes)).startswith(f"HTTP/1.1 {status} ")


async def test_one_who_says_nothing_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(server, "DEADLINE_S", 0.02)
    served = MetricsServer(lambda: "")
    reader, writer = await asyncio.open_connection("127.0.0.1", await served.start(0))
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    served.close()


async def test_a_page_that_fails_is_said_and_costs_nothing_else(caplog):
    served = MetricsServer(lambda: str(1 / 0))
    assert served._routed(b"GET /metrics HTTP/1.1")[0] == 500
    assert "could not be rendered" in caplog.text


async def test_more_at_once_than_it_serves_are_turned_away(ask, monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 0)
    with pytest.raises((ConnectionResetError, AssertionError)):
        assert await ask(b"GET /metrics HTTP/1.1\r\n\r\n")


async def test_a_port_that_is_taken_keeps_no_agent_from_its_work(caplog):
    first, second = MetricsServer(lambda: ""), MetricsServer(lambda: "")
    await loop._serve(second, await first.start(0))
    assert "no metrics: port" in caplog.text
    first.close()
    second.close()
