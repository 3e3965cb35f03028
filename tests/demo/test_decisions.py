"""A proposal in the inbox: by keyboard, by a person who may not, and by two at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browsing import LOAD_TIMEOUT_MS, watched
from tests.demo.people import sign_in
from tests.demo.running import Demo, eventually, share

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(400),
]

PROPOSED_S = 180
# What approving does, by what was proposed; its key stands beside the word where it is open.
APPROVE = re.compile(r"^(Evict|Move|Restart)( E)?$")


@pytest.fixture
def proposals(demo: Demo) -> list[str]:
    """Ids of what waits for a person; the rounds of a cluster that shares propose by themselves."""
    share(demo)
    eventually(lambda: waiting(demo), PROPOSED_S, "a proposal waits for a person")
    return waiting(demo)


def waiting(demo: Demo) -> list[str]:
    found = demo.json("/api/v1/evictions/?state=PROPOSED")["results"]
    return [one["id"] for one in found]


@pytest.fixture
def other_page(chromium: Browser, demo: Demo) -> Iterator[Page]:
    """A page of another person, in a browser of its own."""
    with watched(chromium, demo.url) as context:
        context.set_default_timeout(LOAD_TIMEOUT_MS)
        yield context.new_page()


def test_a_viewer_sees_why_the_decision_is_closed_and_cannot_force_it(
    page: Page, proposals: list[str]
) -> None:
    sign_in(page, "Viewer")
    page.goto(f"/evictions/{proposals[0]}/")
    evict = page.get_by_role("button", name=APPROVE)
    expect(evict).to_be_disabled()
    expect(evict).to_have_attribute("title", re.compile("^You need the role approver in pool"))
    token = page.locator("input[name=csrfmiddlewaretoken]").first.get_attribute("value") or ""
    for decision in ("approve", "keep", "undo"):
        answer = page.request.post(
            f"/evictions/{proposals[0]}/{decision}/",
            form={"csrfmiddlewaretoken": token, "reason": "I would like to"},
            headers={"Referer": page.url},
        )
        assert answer.status == 403


def test_of_two_who_decide_at_once_the_second_sees_who_was_first(
    page: Page, other_page: Page, proposals: list[str]
) -> None:
    sign_in(page, "Approver")
    sign_in(other_page, "Admin")
    for one in (page, other_page):
        one.goto(f"/evictions/{proposals[0]}/")
    hear_no_news(other_page)
    page.get_by_role("button", name="Keep running R").click()
    expect(page.locator("#eviction-live")).to_have_attribute("data-state", "REJECTED")
    other_page.get_by_role("button", name=APPROVE).click()
    expect(other_page.locator("#opened").get_by_role("alert")).to_contain_text("Mara Ortega")
    expect(other_page.locator("#eviction-live")).to_have_attribute("data-state", "REJECTED")


def hear_no_news(page: Page) -> None:
    """The page shows what it showed: it asks for what changed and gets nothing."""

    def answer(route: Route) -> None:
        if route.request.method == "GET":
            route.fulfill(status=204)
        else:
            route.continue_()

    page.route("**/evictions/*/", answer)


def test_the_inbox_is_worked_by_keyboard_alone(page: Page, proposals: list[str]) -> None:
    sign_in(page, "Approver")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/evictions/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("keep running")
    page.keyboard.press("Escape")
    for key in "jjkk":  # faster than any answer
        page.keyboard.press(key)
    chosen = page.url.rstrip("/").rsplit("/", 1)[1]
    opened = page.locator("#opened:not([inert])")
    expect(opened).to_have_attribute("data-eviction", chosen)
    expect(page.locator("a.e[aria-current]")).to_have_attribute("href", f"/evictions/{chosen}/")
    live = page.locator("#eviction-live")
    expect(live).to_have_attribute("data-state", "PROPOSED")
    page.evaluate("document.body.dataset.stays = 'yes'")
    page.keyboard.press("e")
    expect(live).to_have_attribute("data-state", "APPROVED")
    page.keyboard.press("z")
    expect(live).to_have_attribute("data-state", "PROPOSED")
    page.keyboard.press("r")
    expect(live).to_have_attribute("data-state", "REJECTED")
    # A key pressed as soon as the answer is there is one for this page, not for a new one.
    expect(page.locator("body")).to_have_attribute("data-stays", "yes")
