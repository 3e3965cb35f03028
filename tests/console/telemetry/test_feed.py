"""The browsers' socket."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from channels.db import database_sync_to_async as in_database
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from console.accounts.models import Role, User
from console.telemetry import feed
from console.telemetry.feed import BrowserFeed
from console.telemetry.hub import Hub
from console.telemetry.routing import websocket_urlpatterns
from tests.console.telemetry import cast
from tests.console.telemetry.sockets import Socket
from tests.wire.frames import SNAPSHOT, Frame, decode

pytestmark = pytest.mark.django_db(transaction=True)
SOMEBODY = SimpleNamespace(is_authenticated=True, is_active=True, is_superuser=True)
MAP = '{"op": "watch", "number": 1, "detail": "gpus", "fields": ["HEADROOM"]}'


@pytest_asyncio.fixture
async def watch(hub):
    opened: list[Socket] = []

    async def watch(user: Any = SOMEBODY, session: Any = None) -> Socket:
        socket = Socket(BrowserFeed.as_asgi(), "/ws/live/", user=user, session=session)
        opened.append(socket)
        assert await socket.open()
        return socket

    yield watch
    for socket in opened:
        await socket.hang_up()


async def next_frame(socket: Socket) -> Frame:
    while isinstance(message := await socket.receive(), str):
        pass
    return decode(message)


async def next_told(socket: Socket, kind: str) -> dict[str, Any]:
    while True:
        message = await socket.receive()
        if isinstance(message, str) and (body := json.loads(message))["type"] == kind:
            return body


async def with_fleet(hub: Hub) -> None:
    await in_database(cast.node)()
    hub.start()
    async with asyncio.timeout(8):
        while not hub.layout.epoch:
            await asyncio.sleep(0.01)


async def test_without_a_sign_in_nothing_is_sent(watch):
    socket = await watch(AnonymousUser())
    assert await socket.closes_with() == 4401


async def test_a_tab_starts_with_a_snapshot_and_goes_on_with_deltas(watch, hub):
    await with_fleet(hub)
    socket = await watch()
    await socket.send(MAP)
    first, second = await next_frame(socket), await next_frame(socket)
    assert (first.kind, first.rows, first.watch) == (SNAPSHOT, 2, 1)
    assert second.kind != SNAPSHOT
    assert second.sequence == first.sequence + 1
    assert first.epoch == hub.layout.epoch


async def test_a_tab_that_asks_after_a_gap_gets_a_snapshot(watch, hub):
    await with_fleet(hub)
    socket = await watch()
    await socket.send(MAP)
    await next_frame(socket)
    await socket.send('{"op": "snapshot"}')
    async with asyncio.timeout(8):
        while (await next_frame(socket)).kind != SNAPSHOT:
            pass


async def test_the_summary_counts_states_and_work(watch, hub):
    await with_fleet(hub)
    await in_database(cast.job)()
    socket = await watch()
    while (summary := await next_told(socket, "summary")).get("queued") is None:
        pass
    assert summary["gpus"] == 2
    assert summary["states"]["NO_DATA"] == 2
    assert summary["sm_activity"] is None
    assert (summary["queued"], summary["running"], summary["pending_evictions"]) == (1, 0, 0)


async def test_events_of_other_processes_reach_the_tab(watch, hub):
    await with_fleet(hub)
    socket = await watch()
    await hub._hear("muxflow:ui", b'{"op": "evictions", "id": 7}')
    assert await next_told(socket, "event") == {"type": "event", "op": "evictions", "id": 7}


async def test_nonsense_from_a_browser_is_counted(watch, hub):
    socket = await watch()
    await socket.send("drop table")
    async with asyncio.timeout(8):
        while not hub.refused.counts["browser: unknown message"]:
            await asyncio.sleep(0.01)


def node_elsewhere() -> None:
    """With a job that runs, and one that waits for its pool; another waits for any."""
    node = cast.node("node-08", token="another", pool=cast.pool("ads-us"))
    cast.placement(node.gpus.first(), cast.job(state="PLACED"))
    cast.job(pools=["ads-us"])
    cast.job()


async def test_a_tab_is_told_of_the_pools_of_its_person_alone(watch, hub):
    node = await in_database(cast.node)()
    await in_database(node_elsewhere)()
    hub.start()
    async with asyncio.timeout(8):
        while len(hub.layout.facts.ids) < 4:
            await asyncio.sleep(0.01)
    person = await in_database(cast.person)(role=Role.VIEWER, pool=node.pool)
    socket = await watch(person)
    await socket.send(MAP)
    assert (await next_frame(socket)).rows == 2
    while (summary := await next_told(socket, "summary")).get("queued") is None:
        pass
    assert (summary["gpus"], summary["queued"], summary["running"]) == (2, 1, 0)


async def test_a_tab_that_left_is_forgotten(watch, hub):
    socket = await watch()
    await socket.hang_up()
    assert not hub.audience.tabs


async def test_a_page_of_another_site_is_turned_away():
    feed = next(url for url in websocket_urlpatterns if "live" in str(url.pattern)).callback
    headers = [(b"origin", b"https://evil.example"), (b"host", b"127.0.0.1")]
    assert not await Socket(feed, "/ws/live/", headers=headers).open()


def sign_out(client: Client, user: User) -> None:
    client.logout()


def lock_out(client: Client, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.parametrize("leave", [sign_out, lock_out])
async def test_a_page_left_open_is_told_nothing_once_its_session_is_over(
    watch, client, monkeypatch, leave
):
    monkeypatch.setattr(feed, "LOOK_AGAIN_S", 0.0)
    user = await in_database(User.objects.create_user)("ann")
    await in_database(client.force_login)(user, "django.contrib.auth.backends.ModelBackend")
    socket = await watch(user, client.session)
    assert await socket.receive(), "told while the session holds"
    await in_database(leave)(client, user)
    assert await socket.closes_with() == feed.SIGN_IN
