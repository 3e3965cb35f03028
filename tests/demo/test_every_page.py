"""Every page is for everybody, on a demo in which things happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsing import check_for_everybody

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.demo.running import Demo
    from tests.demo.story import Story

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(240),
    pytest.mark.story,
]

PAGES = (
    "/", "/map/", "/map/?view=table&q=node-01", "/gpus/{gpu}/", "/nodes/", "/nodes/node-01/",
    "/nodes/node-17/", "/pools/", "/jobs/", "/jobs/{job}/", "/jobs/new/", "/services/",
    "/services/{service}/", "/evictions/", "/evictions/?view=history", "/policies/",
    "/policies/balanced/", "/policies/balanced/edit/", "/rounds/", "/rounds/why/",
    "/rounds/{round}/", "/predictor/", "/audit/", "/settings/", "/demo/sigterm/",
)  # fmt: skip


@pytest.mark.parametrize("address", PAGES)
def test_every_page_is_for_everybody(story: Story, newcomer: Page, address: str) -> None:
    """While the story goes on."""
    newcomer.goto(addressed(story.demo, address))
    check_for_everybody(newcomer)


def addressed(demo: Demo, address: str) -> str:
    """With a thing that exists in place of each name."""
    firsts: dict[str, Callable[[], Any]] = {
        "gpu": lambda: demo.one("SELECT min(id) FROM inventory_gpu"),
        "job": lambda: demo.json("/api/v1/jobs/")["results"][0]["id"],
        "service": lambda: demo.one("SELECT min(id) FROM workloads_onlineservice"),
        "round": lambda: demo.one("SELECT max(id) FROM scheduling_round"),
    }
    return address.format_map({k: v() for k, v in firsts.items() if f"{{{k}}}" in address})
