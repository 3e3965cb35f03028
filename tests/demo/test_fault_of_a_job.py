"""SIGTERM to a real job amid its kernels: with xCUDA nobody notices, without it online goes down,
and the agent of the node brings it back by itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from console.demo.cluster import CAREFUL_FAMILY, CARELESS_FAMILY
from console.demo.real_node import why_without_xcuda
from tests.demo.running import ROOT, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.demo.running import Demo
    from tests.demo.story import Story

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(500),
    pytest.mark.story,
]

# The story turns sharing on at 0:40; the GPU is watched for 10 s, then a round places the job.
PLACED_S, AGAIN_S = 180, 180
PRESSED_MS, WATCHED_MS, RECOVERED_MS = 40_000, 45_000, 90_000


@pytest.fixture(autouse=True)
def xcuda() -> None:
    if why := why_without_xcuda(ROOT / "build/xcuda"):
        pytest.skip(f"compiler: {why}")


def test_a_job_with_xcuda_ends_and_online_does_not_notice(story: Story, newcomer: Page) -> None:
    press(newcomer, story.demo, "with", CAREFUL_FAMILY)
    card = newcomer.locator("#with-xcuda")
    expect(card).to_contain_text(re.compile(r"\d+ requests answered, 0 lost\."), timeout=WATCHED_MS)
    expect(card).to_contain_text("Online untouched")
    assert figure(card, "How, as the MPS server saw it").startswith("idle")
    assert int(figure(card, "Kernels in flight at the signal")) > 0
    assert figure(card, "Requests lost") == "0"
    assert figure(card, "Faults of the MPS server") == "0"


def test_a_job_without_takes_online_along_and_the_agent_brings_it_back(
    story: Story, newcomer: Page
) -> None:
    press(newcomer, story.demo, "without", CARELESS_FAMILY)
    card, timeline = newcomer.locator("#without-xcuda"), newcomer.locator("#timeline")
    expect(card).to_contain_text("Online was hit, and is back", timeout=RECOVERED_MS)
    assert figure(card, "How, as the MPS server saw it") == "amid a kernel"
    assert int(figure(card, "Requests lost")) > 0
    expect(timeline).to_contain_text("faulted first", timeout=RECOVERED_MS)
    expect(timeline).to_contain_text("Online was back after", timeout=RECOVERED_MS)
    expect(timeline.get_by_role("row").filter(has_text="Was hit")).to_contain_text("Online")


def test_a_press_while_nothing_runs_says_so_and_the_next_job_comes(
    story: Story, newcomer: Page
) -> None:
    """After the fault the GPU takes no work until online has settled."""
    if not is_running(story.demo, CARELESS_FAMILY):
        newcomer.goto("/demo/sigterm/")
        button(newcomer, "without").click(timeout=PRESSED_MS)
        expect(newcomer.locator("body")).to_contain_text(
            re.compile("No job without xCUDA runs|The last one is not over yet|does not answer yet")
        )
    eventually(lambda: is_running(story.demo, CARELESS_FAMILY), AGAIN_S, "the next job runs")


def press(page: Page, demo: Demo, how: str, family: str) -> None:
    """From the panel, as soon as such a job has kernels in flight."""

    def is_pressed() -> bool:
        page.goto("/")
        button(page, how).click(timeout=PRESSED_MS)
        page.wait_for_load_state()
        return page.url.endswith("/demo/sigterm/")

    eventually(lambda: is_running(demo, family), PLACED_S, f"a {family} runs on node-17")
    eventually(is_pressed, PRESSED_MS / 1_000, "the signal is sent")


def button(page: Page, how: str) -> Locator:
    return page.get_by_role("button", name=f"SIGTERM a job {how} xCUDA")


def is_running(demo: Demo, family: str) -> bool:
    query = (
        "SELECT count(*) FROM scheduling_placement AS placement"
        " JOIN workloads_offlinejob AS job ON job.id = placement.job_id"
        " WHERE placement.state = 'RUNNING' AND job.name LIKE ?"
    )
    return bool(demo.one(query, f"{family}-%"))


def figure(card: Locator, name: str) -> str:
    """What stands beside a word of the list."""
    row = card.locator("dt").filter(has_text=re.compile(f"^{re.escape(name)}$"))
    return row.locator("xpath=following-sibling::dd[1]").inner_text()
