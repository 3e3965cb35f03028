"""A real server on a free port, a real Chromium in front of it.

The server runs in a thread of this process, so that a test arranges rows and reads them back with
the ORM; the static files are collected first, under the hashed names that production serves.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
import uvicorn
from django.core.management import call_command
from playwright.sync_api import Browser, Page
from pytest_django import DjangoDbBlocker

from tests.browsing import check_with_axe, launched, watched

ROOT = Path(__file__).resolve().parent.parent.parent
SCREENSHOTS = ROOT / "var" / "screenshots"
STOP_DEADLINE_S = 20.0

# Playwright's loop lives in the main thread, where a test uses the ORM.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def live_url(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The address of a web process on this run's database and Redis."""
    with django_db_blocker.unblock():
        call_command("collectstatic", interactive=False, verbosity=0)
        with LiveServer() as server:
            yield server.url


class LiveServer:
    def __enter__(self) -> LiveServer:
        from console.asgi import application

        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(
            uvicorn.Config(
                application,
                ws="websockets-sansio",
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                timeout_graceful_shutdown=1,
            )
        )
        self.thread = threading.Thread(
            target=self.server.run,
            kwargs={"sockets": [self.socket]},
            name="live-server",
            daemon=True,  # one that does not stop must not keep the run from ending
        )
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(STOP_DEADLINE_S)


@pytest.fixture(autouse=True)
def _database(transactional_db: None) -> None:
    """Rows are committed, since the server reads them through connections of its own."""


@pytest.fixture(autouse=True)
def static_files() -> None:
    """Keep the hashed names: this is where they are tried."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser, live_url: str) -> Iterator[Page]:
    """A page that fails the test at its end when something went wrong on it unseen."""
    with watched(chromium, live_url) as context:
        yield context.new_page()


class Screenshot(Protocol):
    def __call__(self, page: Page, name: str) -> None: ...


@pytest.fixture
def screenshot() -> Screenshot:
    """Save a page as `var/screenshots/NAME-WIDTH-SCHEME.png`, wide and narrow, light and dark."""

    def save(page: Page, name: str) -> None:
        before = page.viewport_size
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                path = SCREENSHOTS / f"{name}-{width}-{scheme}.png"
                page.screenshot(path=path, full_page=True, animations="disabled")
        page.emulate_media(color_scheme="light")
        if before:
            page.set_viewport_size(before)

    return save


class Axe(Protocol):
    def __call__(self, page: Page) -> None: ...


@pytest.fixture
def axe() -> Axe:
    """Assert that a page breaks no rule of WCAG 2.2 AA that a machine can check."""
    return check_with_axe
