from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory

from console.assets.icons import ICONS
from console.looks import LOOKS
from console.styleguide import styleguide


@pytest.fixture
def page() -> str:
    request = RequestFactory().get("/styleguide/?window=14d")
    request.user = AnonymousUser()
    return styleguide(request).content.decode()


def test_every_state_is_on_the_style_page(page):
    for table in LOOKS.values():
        assert all(look.word in page for look in table.values())


def test_every_icon_is_on_the_style_page(page):
    assert all(f"#tabler-{name}" in page for name in ICONS)


def test_no_part_needs_an_inline_style(page):
    assert not re.search(r"\sstyle=|\son[a-z]+=", page)
