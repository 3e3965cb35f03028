from __future__ import annotations

import json
import re

import pytest
from django.contrib.staticfiles import storage
from django.core.management import call_command

from console.assets import icons, importmap, vendor


@pytest.fixture
def collected(settings, tmp_path):
    """The static files as production serves them."""
    settings.STATIC_ROOT = tmp_path
    backend = {"BACKEND": "console.assets.storage.HashedStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": backend}
    importmap.import_map.cache_clear()
    call_command("collectstatic", interactive=False, verbosity=0)
    yield tmp_path
    importmap.import_map.cache_clear()


def hashed(name: str) -> str:
    return storage.staticfiles_storage.url(name).removeprefix("/static/")


def test_every_module_leads_to_its_hashed_file(collected):
    imports = json.loads(importmap.import_map())["imports"]
    assert re.fullmatch(r"/static/js/main\.[0-9a-f]{12}\.js", imports["/static/js/main.js"])
    assert (collected / imports["uplot"].removeprefix("/static/")).is_file()


def test_modules_import_each_other_by_hashed_names_as_a_worker_must(collected):
    imported = re.compile(r'\bfrom "(\.[^"]+)"')
    for name in json.loads(importmap.import_map())["imports"].values():
        file = collected / name.removeprefix("/static/")
        for target in imported.findall(file.read_text()) if "/js/" in name else ():
            assert re.search(r"\.[0-9a-f]{12}\.js$", target), f"{name} imports {target}"
            assert (file.parent / target).is_file()


def test_the_sprite_is_cut(collected):
    assert (collected / hashed(icons.SPRITE)).stat().st_size < 100_000


def test_fonts_are_found_from_the_hashed_style_sheet(collected):
    sheet = (collected / hashed("vendor/inter/index.css")).read_text()
    assert re.search(r"inter-latin-wght-normal\.[0-9a-f]{12}\.woff2", sheet)


def test_missing_packages_are_one_clear_error(settings, tmp_path):
    settings.BASE_DIR = tmp_path
    (error,) = vendor.VendorFinder().check()
    assert error.id == "muxflow.E010"
    assert "npm ci" in error.hint
