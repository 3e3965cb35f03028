"""A browser as tests use it: nothing goes wrong unseen, and every page is for everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Response,
    expect,
    sync_playwright,
)
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.chromium import FLAGS, find_chromium

ROOT = Path(__file__).resolve().parent.parent
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# The outermost tags of what reaches past the right edge, without what scrolls by itself.
TOO_WIDE = """[...document.querySelectorAll("body *")]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .filter((each) => !each.closest(".scroll-x"))
  .slice(0, 5).map((each) => each.outerHTML.slice(0, 120))"""
# Until what has to come counts as missing, on a machine that is busy with other tests.
TIMEOUT_MS, LOAD_TIMEOUT_MS = 15_000, 60_000


@contextmanager
def launched() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def watched(browser: Browser, url: str) -> Iterator[BrowserContext]:
    """A browser context of its own, 1440 wide, for pages of the server at `url`.

    Fails at its end when a page raised an error or wrote one to the console, as it does when the
    content security policy stops something, and when the server failed on a request.
    """
    context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(TIMEOUT_MS)
    context.set_default_navigation_timeout(LOAD_TIMEOUT_MS)
    complaints: list[str] = []
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on("console", lambda message: complaints.extend(complaint(message)))
    context.on("response", lambda response: complaints.extend(server_error(response)))
    yield context
    context.close()
    assert not complaints, "\n".join(complaints)


def complaint(message: ConsoleMessage) -> list[str]:
    """An error that a script wrote; an answer of 4xx that a test asked for is none."""
    is_answer = message.text.startswith("Failed to load resource")
    return [message.text] if message.type == "error" and not is_answer else []


def server_error(response: Response) -> list[str]:
    return [f"{response.status} from {response.url}"] if response.status >= 500 else []


def check_for_everybody(page: Page) -> None:
    """By day, by night, and as wide as a phone. Leaves the page as wide as it was."""
    page.emulate_media(color_scheme="light")
    check_with_axe(page)
    page.emulate_media(color_scheme="dark")
    check_with_axe(page, only="color-contrast")  # nothing else differs by night
    wide = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    assert settles(page), f"{page.url} scrolls sideways, for {too_wide(page)}"
    if wide:
        page.set_viewport_size(wide)


def check_with_axe(page: Page, *, only: str | None = None) -> None:
    """Assert that a page breaks no rule of WCAG 2.2 AA that a machine can check, or not `only`."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    rules = {"type": "rule", "values": [only]} if only else WCAG
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found = page.evaluate(f"axe.run(document, {json.dumps(options)})")
    broken = [describe(violation) for violation in found["violations"]]
    assert not broken, "\n".join((page.url, *broken))


def describe(violation: dict[str, Any]) -> str:
    places = [re.sub(r"\s+", " ", node["html"])[:120] for node in violation["nodes"][:3]]
    return f"{violation['id']}: {violation['help']} {places}"


def fits(page: Page) -> bool:
    """Whether nothing makes the page scroll sideways."""
    found: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return found


def settles(page: Page) -> bool:
    """Whether it fits as soon as its charts have followed the width."""
    with suppress(PlaywrightTimeout):
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=2_000)
    return fits(page)


def too_wide(page: Page) -> list[str]:
    """The elements that reach past the right edge, as they are written."""
    found: list[str] = page.evaluate(TOO_WIDE)
    return found
