"""What stands around every page, tried in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from console.accounts.models import Role
from tests.browser.people import sign_in
from tests.browsing import fits
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_node

STALE_DEADLINE_MS = 9_000
SILENT_SOCKET = """
delete window.Worker; // the page connects itself
window.WebSocket = class extends EventTarget { static OPEN = 1; readyState = 0; close() {} }
"""


def an_operator():
    return a_user("ortega", Role.OPERATOR)


@pytest.fixture
def overview(page, live_url):
    a_node(gpus=4)
    sign_in(page, an_operator(), live_url)
    page.goto("/", wait_until="networkidle")  # its modules load after the page
    return page


def test_the_overview_is_for_everybody(overview, axe):
    for scheme in ("light", "dark"):
        overview.emulate_media(color_scheme=scheme)
        axe(overview)
    overview.set_viewport_size({"width": 390, "height": 844})
    assert fits(overview)


def test_the_overview_looks_as_it_should(overview, screenshot):
    screenshot(overview, "overview")


def test_the_question_mark_lists_the_keys(overview):
    overview.keyboard.press("?")
    expect(overview.get_by_role("dialog", name="Keys")).to_contain_text("go to Map")
    overview.keyboard.press("Escape")
    expect(overview.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_a_menu_walks_by_arrow_keys_and_closes_by_escape(overview):
    more = overview.locator(".nav1 details.menu")
    more.locator("summary").press("ArrowDown")
    expect(more.locator("a").first).to_be_focused()
    overview.keyboard.press("Escape")
    expect(more.locator("summary")).to_be_focused()
    expect(more.locator("a").first).to_be_hidden()


def test_a_chosen_theme_outlives_the_page(overview):
    overview.locator(".user summary").click()
    overview.get_by_role("button", name="Dark").click()
    overview.reload()
    expect(overview.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_a_feed_that_stops_is_said_and_closes_decisions(page, live_url):
    a_node(gpus=4)
    sign_in(page, an_operator(), live_url)
    page.add_init_script(SILENT_SOCKET)
    page.goto("/")
    page.evaluate("document.querySelector('.callout button').dataset.needsFresh = ''")
    expect(page.locator("#stale-bar")).to_be_visible(timeout=STALE_DEADLINE_MS)
    button = page.get_by_role("button", name="Turn sharing on")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "Data is missing: decide again once it is fresh")


def test_without_scripts_the_page_still_tells_and_acts(chromium, live_url):
    a_node(gpus=4)
    context = chromium.new_context(base_url=live_url, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, an_operator(), live_url)
    page.goto("/")
    expect(page.get_by_role("button", name="Turn sharing on")).to_be_enabled()
    expect(page.get_by_role("link", name="Stop sharing…").first).to_have_attribute(
        "href", "/sharing/stop/"
    )
    context.close()
