"""The real launcher with its real processes, and a real Chromium in front of them.

There are two demos, one still and one in which the story goes on; the tests of the latter are
marked `story`, so that the two can run one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browsing import LOAD_TIMEOUT_MS, launched, watched
from tests.demo.people import sign_in
from tests.demo.running import Demo, running_demo
from tests.demo.story import Story, running_story


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the demo whose story is off."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="session")
def demo(folder: Path) -> Iterator[Demo]:
    """One for all tests in which nothing may happen by itself."""
    with running_demo(folder, story=False) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser, demo: Demo) -> Iterator[Page]:
    """A page that fails the test at its end when something went wrong on it unseen."""
    with watched(chromium, demo.url) as context:
        context.set_default_timeout(LOAD_TIMEOUT_MS)  # other tests run beside this one
        yield context.new_page()


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One for all tests that look on while it goes on."""
    with running_story(tmp_path_factory.mktemp("story")) as story:
        yield story


@pytest.fixture(scope="session")
def newcomer(story: Story, chromium: Browser) -> Iterator[Page]:
    with watched(chromium, story.demo.url) as context:
        context.set_default_timeout(LOAD_TIMEOUT_MS)
        page = context.new_page()
        sign_in(page, "Approver")
        yield page
