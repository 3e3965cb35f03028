"""Static files under content-hashed names, so that they can be cached for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.contrib.staticfiles.storage import ManifestStaticFilesStorage

from console.assets import icons

# Which files, then what is looked for in them and what takes its place: `from "./wire.js"`.
OUR_IMPORTS: Final = (
    "js/*.js",
    ((r"""(?P<matched>\bfrom "(?P<url>\.[^"]+)")""", """from "%(url)s\""""),),
)


class HashedStorage(ManifestStaticFilesStorage):
    """Cuts the icon sprite to the icons in use, then hashes everything.

    Our modules import each other by hashed names: a worker has no import map. Packages' modules
    and names that are put together (`import(`./${name}.js`)`) are left to the pages' import map
    (see `importmap.py`).
    """

    patterns = (*ManifestStaticFilesStorage.patterns, OUR_IMPORTS)
    # A name changes with the names in its file: as many passes as the longest chain of imports.
    max_post_process_passes = 20

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
