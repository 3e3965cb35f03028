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
            self._cut_sprite(*paths[icons.SPRITE])
            paths = {**paths, icons.SPRITE: (self, icons.SPRITE)}
        yield from super().post_process(paths, dry_run, **options)

    def _cut_sprite(self, source: Any, path: str) -> None:
        """Always from the package's own file: an icon may have been added since the last time."""
        with source.open(path) as whole:
            cut = icons.cut(whole.read().decode())
        Path(self.path(icons.SPRITE)).write_text(cut)
