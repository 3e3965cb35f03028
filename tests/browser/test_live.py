"""From an agent's socket to the pixel: the map, its table, and the page of one GPU."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from agents.wire.names import GpuState
from console.accounts.models import Role
from tests.browser.people import sign_in
from tests.browser.talking import TalkingAgent
from tests.browsing import fits
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import sample

STALE_DEADLINE_MS = 9_000
LOST_DEADLINE_MS = 30_000


@pytest.fixture
def agent(live_url):
    node = cast.node(gpus=4)
    cast.service(node.gpus.get(index=1))
    with TalkingAgent(live_url, node, cast.TOKEN) as talking:
        talking.samples = (
            sample(0, headroom_percent=25.0, sm_activity=52.0),
            sample(1, GpuState.UNHEALTHY, headroom_percent=4.0, online_p99=48.0),
            sample(2, headroom_percent=None, sm_activity=None),
            sample(3, sm_activity=0.0, online_processes=0, offline_processes=0),
        )
        yield talking


@pytest.fixture
def viewer(page: Page, live_url: str, agent: TalkingAgent) -> Page:
    sign_in(page, cast.person(role=Role.APPROVER), live_url)
    return page


def row(page: Page, index: int):
    return page.locator("tbody tr", has=page.get_by_role("link", name=f"node-07 / GPU {index}"))


def focus_map(page: Page) -> None:
    page.goto("/map/")
    expect(page.locator("[data-part=total]")).to_contain_text("4 GPUs")
    page.locator("canvas[data-part=map]").focus()


def test_values_reach_the_table_and_change_in_place(viewer, agent):
    viewer.goto("/map/?view=table")
    expect(row(viewer, 0)).to_contain_text("25\u00a0%")
    expect(row(viewer, 1)).to_contain_text("Busy")
    agent.samples = (sample(0, headroom_percent=11.0),)
    expect(row(viewer, 0)).to_contain_text("11\u00a0%")


def test_missing_is_never_zero_and_idle_is_neither(viewer):
    viewer.goto("/map/?view=table")
    blind, idle = row(viewer, 2), row(viewer, 3)
    expect(blind).to_contain_text("unsupported")
    expect(blind.locator("td.none")).to_have_count(3)  # headroom, SM activity, p99 of no SLO
    expect(blind.get_by_text(re.compile(r"^0\s"))).to_have_count(0)
    expect(idle).to_contain_text("live, idle")


def test_silence_is_seen_within_seconds(viewer, agent):
    viewer.goto("/map/?view=table")
    expect(row(viewer, 0)).to_contain_text("live")
    agent.samples = ()
    expect(row(viewer, 0)).to_contain_text("stale", timeout=STALE_DEADLINE_MS)
    expect(row(viewer, 0)).to_contain_text("No live data")


def test_a_column_orders_the_table_and_what_is_missing_comes_last(viewer):
    viewer.goto("/map/?view=table")
    expect(row(viewer, 1)).to_contain_text("4\u00a0%")
    order, headroom = (
        viewer.locator("tbody tr td:first-child"),
        viewer.locator("thead th", has_text="Headroom"),
    )
    for direction, first in (("descending", "GPU 0"), ("ascending", "GPU 1")):
        headroom.get_by_role("button").click()
        expect(headroom).to_have_attribute("aria-sort", direction)
        expect(order.first).to_have_text(f"node-07 / {first}")
        expect(order.last).to_have_text("node-07 / GPU 2")


def test_who_is_in_a_state_is_looked_at_again(viewer, agent):
    viewer.goto("/map/?group=state&q=busy")
    expect(viewer.locator("[data-part=total]")).to_contain_text("1 GPU,")
    agent.samples = (sample(0, GpuState.UNHEALTHY), sample(1, GpuState.UNHEALTHY))
    expect(viewer.locator("[data-part=total]")).to_contain_text("2 GPUs,")


def test_arrow_keys_move_the_address_follows_and_enter_opens(viewer):
    focus_map(viewer)
    viewer.keyboard.press("ArrowRight")
    expect(viewer.get_by_role("status").filter(has_text="node-07 / GPU 0")).to_be_visible()
    viewer.keyboard.press("ArrowRight")
    expect(viewer.locator("#map-tip")).to_contain_text("node-07 / GPU 1")
    expect(viewer).to_have_url(re.compile(r"gpu=\d+"))
    viewer.keyboard.press("Enter")
    expect(viewer.get_by_role("heading", level=1)).to_have_text("node-07 / GPU 1")


def test_the_hover_card_tells_the_limit_and_who_is_there(viewer):
    focus_map(viewer)
    viewer.keyboard.press("Home")
    viewer.keyboard.press("ArrowRight")
    card = viewer.locator("#map-tip")
    expect(card).to_contain_text("48 / 60\u00a0ms")
    expect(card).to_contain_text("search-rank over its SLO")


def test_the_address_holds_the_view(viewer):
    focus_map(viewer)
    viewer.get_by_label("Fill by").select_option("memory")
    viewer.get_by_label("Filter by").fill("gpu 2")
    expect(viewer.locator("[data-part=total]")).to_contain_text("1 GPU")
    viewer.reload()
    expect(viewer.get_by_label("Fill by")).to_have_value("memory")
    expect(viewer.locator("[data-part=total]")).to_contain_text("1 GPU")


def test_an_address_that_names_what_there_is_not_shows_the_usual_map(viewer):
    viewer.goto(
        "/map/?group=__proto__&fill=constructor&mark=none&zoom=1e999&at=x,y&from=abc&gpu=-1"
    )
    expect(viewer.locator("[data-part=total]")).to_contain_text("4 GPUs")
    expect(viewer.get_by_label("Group by")).to_have_value("pool")
    expect(viewer.get_by_label("Fill by")).to_have_value("headroom")
    viewer.locator("canvas[data-part=map]").focus()
    viewer.keyboard.press("Home")
    expect(viewer.locator("#map-tip")).to_contain_text("25\u00a0%")
    expect(viewer).to_have_url(re.compile(r"^(?!.*NaN)"))


def test_a_map_whose_worker_is_gone_goes_on_without_one(viewer, agent):
    focus_map(viewer)
    (worker,) = viewer.workers
    with viewer.expect_event("load", timeout=LOST_DEADLINE_MS):
        worker.evaluate("setTimeout(() => self.close()), undefined")
    expect(viewer.locator("#data-age")).to_contain_text("old")
    assert not viewer.workers
    focus_map(viewer)
    viewer.keyboard.press("Home")
    expect(viewer.locator("#map-tip")).to_contain_text("25\u00a0%")
    agent.samples = (sample(0, headroom_percent=11.0),)
    expect(viewer.locator("#map-tip")).to_contain_text("11\u00a0%")


def test_a_filter_without_a_match_says_so(viewer):
    viewer.goto("/map/?q=nowhere")
    expect(viewer.get_by_role("heading", name="No GPU matches “nowhere”.")).to_be_visible()


def test_the_page_of_a_gpu_follows_its_values(viewer, agent):
    gpu = agent.gpus[1]
    viewer.goto(f"/gpus/{gpu.pk}/")
    p99 = viewer.locator("[data-signal=online_p99]")
    expect(p99).to_contain_text("48\u00a0ms")
    expect(viewer.locator("#gpu-tenants")).to_contain_text("over the SLO")
    agent.samples = (sample(1, online_p99=21.0),)
    expect(p99).to_contain_text("21\u00a0ms")
    expect(viewer.locator("#gpu-head")).to_contain_text("Healthy")
    expect(viewer.locator("#gpu-tenants")).not_to_contain_text("over the SLO")


@pytest.mark.parametrize("path", ["/map/", "/map/?view=table", "/gpus/{gpu}/"])
def test_the_live_pages_are_for_everybody(viewer, agent, axe, path):
    viewer.goto(path.format(gpu=agent.gpus[1].pk))
    expect(viewer.locator("#data-age")).to_contain_text("old")
    for scheme in ("light", "dark"):
        viewer.emulate_media(color_scheme=scheme)
        axe(viewer)
    viewer.set_viewport_size({"width": 390, "height": 844})
    viewer.reload()
    expect(viewer.locator("#data-age")).to_contain_text("old")
    assert fits(viewer)


BROKEN_WORKER = """globalThis.Worker = class extends Worker {
  constructor() { super("/nowhere.js"); }
}"""


def test_where_the_worker_does_not_run_the_page_paints_the_map_itself(viewer):
    viewer.add_init_script(BROKEN_WORKER)
    focus_map(viewer)
    expect(viewer.get_by_role("button", name="Unsupported")).to_contain_text("1")
    assert not viewer.workers
    assert pixels_of(viewer, 0) != pixels_of(viewer, 2)


def test_the_live_pages_look_as_they_should(viewer, agent, screenshot):
    focus_map(viewer)
    screenshot(viewer, "map")
    viewer.goto(f"/gpus/{agent.gpus[1].pk}/")
    expect(viewer.locator("[data-signal=online_p99]")).to_contain_text("ms")
    screenshot(viewer, "gpu")


PIXELS = """(box) => {
  const canvas = document.querySelector("canvas[data-part=map]");
  const copy = new OffscreenCanvas(canvas.width, canvas.height), from = copy.getContext("2d");
  from.drawImage(canvas, 0, 0); // another thread may paint it
  const [x, y, w, h] = box.map((each) => Math.round(each * devicePixelRatio));
  return Array.from(from.getImageData(x, y, w, h).data);
}"""


def cell_of(page: Page) -> list[float]:
    """Where the focused cell is on the canvas: the box of the ring, without its border."""
    ring, canvas = page.locator(".ring"), page.locator("canvas[data-part=map]")
    outer, at = ring.bounding_box(), canvas.bounding_box()
    assert outer is not None
    assert at is not None
    inset = 4
    return [
        outer["x"] - at["x"] + inset, outer["y"] - at["y"] + inset,
        outer["width"] - 2 * inset, outer["height"] - 2 * inset,
    ]  # fmt: skip


def pixels_of(page: Page, index: int) -> list[int]:
    """The pixels of GPU `index`, found by keyboard."""
    page.locator("canvas[data-part=map]").focus()
    page.keyboard.press("Home")
    while f"node-07 / GPU {index}" not in page.locator("#map-tip").inner_text():
        before = page.locator("#map-tip h3").inner_text()
        page.keyboard.press("ArrowRight")
        if page.locator("#map-tip h3").inner_text() == before:
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowLeft")
    found: list[int] = page.evaluate(PIXELS, cell_of(page))
    return found


def test_a_signal_that_nobody_measured_is_never_zero_from_the_agent_to_the_pixel(viewer, agent):
    agent.samples = (
        sample(0, headroom_percent=0.0),
        sample(1, headroom_percent=None),
        sample(2, headroom_percent=None, sm_activity=None),
        sample(3, headroom_percent=0.0),
    )
    focus_map(viewer)
    expect(viewer.get_by_role("button", name="Unsupported")).to_contain_text("2")
    expect(viewer.get_by_role("button", name="Zero, measured")).to_contain_text("2")
    assert len(viewer.workers) == 1, "the map is painted in a worker"
    zero, missing, blind = (pixels_of(viewer, index) for index in (0, 1, 2))
    assert missing == blind, "what is missing is drawn as unsupported"
    assert missing != zero
    assert zero == pixels_of(viewer, 3)
    pixels_of(viewer, 1)
    expect(viewer.locator("#map-tip")).to_contain_text("no data")
    expect(viewer.locator("#map-tip")).not_to_contain_text(re.compile(r"Headroom\s*0"))
    viewer.keyboard.press("t")
    expect(row(viewer, 0).locator("td", has_text=re.compile("^0\u00a0%$"))).to_have_count(1)
    expect(row(viewer, 1).get_by_text(re.compile(r"^0\u00a0%$"))).to_have_count(0)
    expect(row(viewer, 1).locator("td.none")).not_to_have_count(0)
