from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from console.assets import icons

ROOT = Path(settings.BASE_DIR)
IN_TEMPLATES = re.compile(r"""\{% icon ["']([a-z0-9-]+)["']|icon=["']([a-z0-9-]+)["']""")
IN_MODULES = re.compile(r"""\bicon\(["']([a-z0-9-]+)["']""")

SPRITE = (
    '<svg><defs><symbol id="tabler-x" a="b"><path/></symbol>'
    '<symbol id="tabler-zzz"><path/></symbol></defs></svg>'
)


def used() -> set[str]:
    found = set()
    for path in (ROOT / "templates").rglob("*.html"):
        found |= {a or b for a, b in IN_TEMPLATES.findall(path.read_text())}
    for path in (ROOT / "static" / "js").rglob("*.js"):
        found |= set(IN_MODULES.findall(path.read_text()))
    return found


def test_the_list_holds_exactly_the_icons_in_use():
    assert used() ^ icons.ICONS == set()


def test_the_cut_sprite_holds_only_what_is_named():
    cut = icons.cut(SPRITE, {"x"})
    assert "tabler-x" in cut
    assert "tabler-zzz" not in cut


def test_an_icon_that_the_package_lost_is_named():
    with pytest.raises(ValueError, match="gone"):
        icons.cut(SPRITE, {"x", "gone"})


def test_the_package_has_every_icon():
    whole = (ROOT / "node_modules/@tabler/icons-sprite/dist/tabler-sprite-nostroke.svg").read_text()
    assert len(icons.cut(whole)) < 100_000
