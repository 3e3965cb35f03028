"""The scrubber of a replay: pointer and keys move one moment, and all tells of that moment."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from agents.wire.ids import uuid7
from agents.wire.names import EventKind, Origin, Phase
from console.accounts.models import Role
from console.evictions.models import Eviction
from console.history import writing
from console.policies import services as policies
from console.scheduling.models import Round
from console.telemetry.models import NodeEvent
from tests.browser.people import sign_in
from tests.console.history.cast import samples
from tests.console.telemetry import cast

MINUTE = timedelta(minutes=1)
LOADS_MS = 20_000
# As static/css/replay.css.
AXIS_PX, END_PX = 58, 8


@pytest.fixture
def started():
    """Of the ten minutes, a whole one that lies an hour back."""
    return (timezone.now() - 60 * MINUTE).replace(second=0, microsecond=0)


@pytest.fixture
def gpu(started):
    """Its p99 rises over the limit in minute 5; a round and a new policy come before that."""
    gpu = cast.node().gpus.get(index=0)
    cast.service(gpu)
    policies.ensure_defaults(started + 2 * MINUTE, demo=False)
    Round.objects.create(kind="shadow", state="DONE", started_at=started + 3 * MINUTE)
    first = int(started.timestamp())
    writing.store(samples([gpu.pk], first, 300, online_p99=20.0), 1)
    writing.store(samples([gpu.pk], first + 300, 300, online_p99=90.0), 1)
    NodeEvent.objects.create(
        event_id=uuid7(), node=gpu.node, seq=1, kind=EventKind.TRANSITION, gpu=gpu,
        at=started + 5 * MINUTE, received_at=started + 5 * MINUTE,
        data={"from": "HEALTHY", "to": "GUARDED"},
    )  # fmt: skip
    eviction = Eviction.objects.create(
        placement=cast.placement(gpu, state="ENDED", created_at=started - MINUTE),
        gpu=gpu, origin=Origin.OVERLOAD, state="COMPLETED", by_node=True, why="p99 over its limit",
        proposed_at=started + 6 * MINUTE, state_since=started + 7 * MINUTE,
        ended_at=started + 7 * MINUTE,
    )  # fmt: skip
    eviction.phases.create(phase=Phase.GONE, at=started + 7 * MINUTE)
    return gpu


@pytest.fixture
def replay(page: Page, live_url: str, gpu, started) -> Page:
    sign_in(page, cast.person(role=Role.VIEWER), live_url)
    middle = int((started + 5 * MINUTE).timestamp())
    page.goto(f"/gpus/{gpu.pk}/replay/?at={middle}&mark={middle - 300}")
    expect(page.get_by_role("slider", name="Moment of the replay")).to_be_enabled(timeout=LOADS_MS)
    return page


def clock(page: Page):
    return page.locator("#h-moment [data-part=clock]")


def p99(page: Page):
    return page.locator('[data-reading="online_p99"]')


def drag(page: Page, track: str, start: float, end: float) -> None:
    """Over the picture of a signal, from one part of its axis of time to another."""
    box = page.locator(f'[data-track="{track}"]').bounding_box()
    assert box
    left, room = box["x"] + AXIS_PX, box["width"] - AXIS_PX - END_PX
    page.mouse.move(left + room * start, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(left + room * end, box["y"] + 20, steps=4)
    page.mouse.up()


def test_keys_and_pointer_move_the_moment_and_every_signal_tells_what_was_so_then(replay, started):
    expect(p99(replay)).to_contain_text("20\u00a0ms")
    replay.get_by_role("slider").press("ArrowRight")
    expect(clock(replay)).to_have_text(f"{started + timedelta(seconds=1):%H:%M:%S}")
    replay.get_by_role("slider").press("End")
    expect(p99(replay)).to_contain_text("90\u00a0ms")
    expect(p99(replay)).to_have_class("is-overloaded")
    expect(replay.get_by_role("slider")).to_have_attribute(
        "aria-valuetext", re.compile("Online p99 90\u00a0ms, over its limit")
    )
    end = int((started + 10 * MINUTE).timestamp())
    expect(replay).to_have_url(re.compile(f"mark={end}"))
    replay.reload()
    expect(clock(replay)).to_have_text(f"{started + 10 * MINUTE:%H:%M:%S}")
    drag(replay, "online_p99", 0.9, 0.25)
    seconds = int(replay.get_by_role("slider").input_value()) - int(started.timestamp())
    assert abs(seconds - 150) <= 3
    expect(p99(replay)).to_contain_text("20\u00a0ms")


def test_each_pin_is_reached_by_keys_and_says_what_it_is(replay, started, axe):
    told, slider = replay.locator("[data-part=told]"), replay.get_by_role("slider")
    slider.focus()
    for minute, what in (
        (2, "Balanced v1 in force"),
        (3, "Round"),
        (5, "Healthy → Guarded"),
        (6, "Eviction begun by the node"),
        (7, "Gone"),
    ):
        replay.keyboard.press("]")
        expect(told).to_contain_text(what)
        expect(clock(replay)).to_have_text(f"{started + minute * MINUTE:%H:%M:%S}")
    replay.keyboard.press("[")
    expect(told).to_contain_text("Eviction begun by the node")
    link = replay.get_by_role("link", name=f"{started + 5 * MINUTE:%H:%M:%S}").last
    link.press("Enter")
    expect(replay.locator("#h-moment")).to_contain_text(f"{started + 5 * MINUTE:%H:%M:%S}")
    axe(replay)
