"""The import map: what `import "uplot"` and each of our modules means on this page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage

# Bare names that modules may import.
BARE: Final = {"uplot": "vendor/uplot/uPlot.esm.js"}


@cache
def import_map() -> str:
    """JSON for `<script type="importmap">`; made once per process, the files do not change."""
    imports = {name: staticfiles_storage.url(path) for name, path in BARE.items()}
    imports |= dict(hashed_modules(getattr(staticfiles_storage, "hashed_files", {})))
    return json.dumps({"imports": imports}, separators=(",", ":"), sort_keys=True)


def hashed_modules(hashed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Plain URL → hashed URL of each of our modules; nothing when names are not hashed."""
    base = settings.STATIC_URL
    for name, target in hashed.items():
        if name.startswith("js/") and name.endswith(".js"):
            yield f"{base}{name}", f"{base}{target}"
