"""The demo learns from the pairs that it has seen, and the page says how much better it got."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browsing import check_for_everybody
from tests.demo.running import Demo, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.demo.story import Story

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(600),
    pytest.mark.story,
]

# Enough is observed half a minute after the first jobs have warmed up; a training takes seconds.
OBSERVED_S, LEARNT_S = 120, 240
PYTORCH = importlib.util.find_spec("torch") is not None


def test_what_was_observed_makes_a_better_predictor_than_the_estimate(
    story: Story, newcomer: Page
) -> None:
    if not PYTORCH:
        assert "PyTorch is not installed here: run `make ml`" in story.demo.get("/predictor/")
        pytest.skip("PyTorch: run `make ml`")
    story.wait()  # it takes nothing from the first two minutes
    newcomer.goto("/predictor/")
    retrain = newcomer.get_by_role("button", name="Retrain now")
    eventually(lambda: can_learn(story.demo), OBSERVED_S, "enough pairs were observed")
    if not versions(story.demo):
        newcomer.reload()
        with newcomer.expect_navigation():
            retrain.click()
    eventually(lambda: versions(story.demo), LEARNT_S, "a version was learnt")
    report = versions(story.demo)[-1]["report"]
    errors = {name: of["mae"] for name, of in report["overall"].items()}
    assert errors["network"] < 0.95 * errors["analytic"]
    assert errors["network"] < errors["mean"]
    assert story.demo.json("/api/v1/predictor/")["version"] is not None
    see_how_much_better(newcomer, errors)


def see_how_much_better(page: Page, errors: dict[str, float]) -> None:
    page.goto("/predictor/")
    compared = page.get_by_role("table", name="Mean error of the job's predicted speed")
    expect(compared).to_contain_text(f"This version{errors['network']:.3f}")
    expect(compared).to_contain_text(f"Analytic estimate{errors['analytic']:.3f}")
    expect(page.locator("svg.scatter circle").first).to_be_visible()
    check_for_everybody(page)


def can_learn(demo: Demo) -> bool:
    return "Retrain now" in demo.get("/predictor/") or bool(versions(demo))


def versions(demo: Demo) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = demo.json("/api/v1/predictor/versions/")["results"]
    return found
