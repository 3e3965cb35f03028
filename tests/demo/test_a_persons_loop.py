"""What a person does with the product, in a browser, on the running demo, from end to end."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.demo.people import sign_in
from tests.demo.running import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.demo.running import Demo

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(400),
]

SHARED_MS, STOPPED_MS = 60_000, 90_000
# Agents follow a policy within two seconds; the page asks every second.
APPLIED_S = 5.0
MANY = 50


def test_a_person_shares_evicts_and_changes_a_policy(page: Page, demo: Demo) -> None:
    sign_in(page, "Approver")
    map_page = open_map(page)
    before = picture(map_page)
    turn_sharing_on(page)
    see_the_map_move(map_page, before)

    gpu_id = open_a_gpu_with_a_guest(page)
    occupied_bytes = guest_memory_bytes(demo, gpu_id)
    assert occupied_bytes > 0
    job, eviction_id = evict(page, "On the way out, to see how")
    assert see_it_stop(page)[-1] == "COMPLETED"
    see_the_job_gone(page, demo, job, eviction_id)
    see_the_memory_returned(demo, gpu_id, occupied_bytes)

    assert change_a_threshold(page, "A little later, to see how") <= APPLIED_S
    see_it_in_the_audit(page, job)


def open_map(page: Page) -> Page:
    """In a tab of its own, which is never loaded again: what changes there came by itself."""
    tab = page.context.new_page()
    tab.goto("/map/")
    expect(guests(tab)).to_have_text("0")
    return tab


def turn_sharing_on(page: Page) -> None:
    page.bring_to_front()
    outlook = page.get_by_role("region", name=re.compile("could share today"))
    expect(outlook).to_contain_text("lets the next round place queued jobs beside online work")
    expect(outlook).to_contain_text("out as the standing control")
    outlook.get_by_role("button", name="Turn sharing on").click()
    expect(outlook).to_have_count(0)


def see_the_map_move(tab: Page, before: str) -> None:
    tab.bring_to_front()
    expect(guests(tab)).to_have_text(re.compile(r"^\d{2,}$"), timeout=SHARED_MS)
    assert picture(tab) != before


def guests(tab: Page) -> Locator:
    """How many GPUs the map marks as having an offline guest."""
    return tab.get_by_label("Legend").get_by_text("Offline guest").locator(".tn")


def picture(tab: Page) -> str:
    pixels: str = tab.locator("canvas[data-part=map]").evaluate("canvas => canvas.toDataURL()")
    return pixels


def open_a_gpu_with_a_guest(page: Page) -> int:
    """Beside an online service, the one with the most headroom; from the map as a table."""
    page.bring_to_front()
    page.goto("/map/?view=table")
    table = page.get_by_role("table", name="GPUs with their live values")
    table.get_by_role("button", name="Headroom").click()
    rows = table.locator("tbody tr").filter(has_text="Healthy")
    shared = rows.filter(has_not_text="no guest").filter(has_not_text="none")
    # Nobody can stop a job gently that runs without xCUDA, as one on node 17 does.
    shared = shared.filter(has_not_text="node-17")
    shared.first.get_by_role("link").click()
    page.wait_for_url("**/gpus/*/")
    expect(page.get_by_role("link", name=re.compile("^Evict "))).to_be_visible(timeout=SHARED_MS)
    return int(page.url.rstrip("/").rsplit("/", 1)[1])


def evict(page: Page, why: str) -> tuple[str, str]:
    page.get_by_role("link", name=re.compile("^Evict ")).click()
    dialog = page.get_by_role("dialog")
    heading = dialog.get_by_role("heading", name=re.compile("^Evict ")).inner_text()
    job = heading.removeprefix("Evict ").split(" from ")[0]
    dialog.locator("label.chip").first.click()
    dialog.get_by_label("Note").fill(why)
    dialog.get_by_role("button", name="Evict", exact=True).click()
    page.wait_for_url("**/evictions/*/")
    return job, page.url.rstrip("/").rsplit("/", 1)[1]


def see_it_stop(page: Page) -> list[str]:
    """The states that the page showed one after the other, without being loaded again."""
    shown: list[str] = []
    live = page.locator("#eviction-live")
    until = time.monotonic() + STOPPED_MS / 1000
    while shown[-1:] != ["COMPLETED"] and time.monotonic() < until:
        state = live.get_attribute("data-state") or ""
        if shown[-1:] != [state]:
            shown.append(state)
        page.wait_for_timeout(50)
    assert shown[0] in {"APPROVED", "DISPATCHED"}
    assert {"DISPATCHED", "STOPPING"} & set(shown)
    return shown


def see_the_job_gone(page: Page, demo: Demo, job: str, eviction_id: str) -> None:
    expect(page.locator("#eviction-live")).to_contain_text(f"Took {job} off")
    expect(page.locator("#eviction-live")).to_contain_text("freed")
    told = demo.json(f"/api/v1/evictions/{eviction_id}/")
    assert told["state"] == "COMPLETED"
    assert told["freed_bytes"] > 0
    page.locator("#line").get_by_role("link").first.click()
    page.wait_for_url("**/gpus/*/")
    tenants = page.locator("#gpu-tenants")
    expect(tenants).not_to_contain_text(job)


def see_the_memory_returned(demo: Demo, gpu_id: int, occupied_bytes: int) -> None:
    def is_returned() -> bool:
        return guest_memory_bytes(demo, gpu_id) < occupied_bytes

    eventually(is_returned, 5, "the memory of the job is free again")


def guest_memory_bytes(demo: Demo, gpu_id: int) -> int:
    found = demo.json(f"/api/v1/gpus/{gpu_id}/live/")["values"]["offline_memory_bytes"]
    return int(found or 0)


def change_a_threshold(page: Page, why: str) -> float:
    """Seconds from the click until all nodes report the new version."""
    page.goto("/policies/")
    page.get_by_role("row").filter(has_text="all nodes").get_by_role("link").first.click()
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Temperature, evict", exact=True).fill("88")
    expect(page.locator("#diff")).to_contain_text("88")
    page.locator("label.chip").first.click()
    page.get_by_label("Note").fill(why)
    page.get_by_role("button", name=re.compile("^Save and apply version 2")).click()
    clicked_s = time.monotonic()
    applied = page.locator("#applied")
    expect(applied).to_contain_text(re.compile(r"All \d+ nodes report v2"), timeout=60_000)
    return time.monotonic() - clicked_s


def see_it_in_the_audit(page: Page, job: str) -> None:
    """Who, when and why of all three; the seal follows within seconds."""
    page.goto("/audit/?actor=ortega")
    for did, why in (
        ("sharing", ""),
        ("eviction", "On the way out, to see how"),
        ("policy", "A little later, to see how"),
    ):
        row = page.get_by_role("row").filter(has_text=re.compile(did, re.IGNORECASE))
        row = row.filter(has_text=why).first
        expect(row).to_contain_text("Ortega")
        expect(row.locator("time")).to_have_attribute("datetime", re.compile(r"^20\d\d-"))
