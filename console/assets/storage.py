"""Static files under content-hashed names, so that they can be cached for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.storage import ManifestStaticFilesStorage

from console.assets import icons


class HashedStorage(ManifestStaticFilesStorage):
    """Cuts the icon sprite to the icons in use, then hashes everything.

    The text of JavaScript is left alone: pages carry an import map (see `importmap.py`) that
    leads every module to its hashed name.
    """

    def post_process(
        self, paths: dict[str, Any], dry_run: bool = False, **options: Any
    ) -> Iterator[Any]:
        if icons.SPRITE in paths and not dry_run:
            sprite = Path(self.path(icons.SPRITE))
            if sprite.stat().st_size > 200_000:  # not cut by an earlier run
                sprite.write_text(icons.cut(sprite.read_text()))
        yield from super().post_process(paths, dry_run, **options)
