"""Signing in as a newcomer does: with one click."""

from __future__ import annotations

from playwright.sync_api import Page


def sign_in(page: Page, role: str) -> None:
    """`role` is the word on the button: Viewer, Approver, Admin."""
    page.goto("/")
    page.get_by_role("button", name=role).click()
    page.wait_for_url("/")
