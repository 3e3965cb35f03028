"""The few files of npm packages that pages use, found for `collectstatic` and the debug server.

Whole packages would be hundreds of files; naming the ones in use keeps the image small and makes
a missing package one clear system check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage, Error
from django.core.files.storage import FileSystemStorage, Storage


class Package(NamedTuple):
    """`files` (glob patterns) of `node_modules/<folder>`, served under `vendor/<prefix>/`."""

    prefix: str
    folder: str
    files: tuple[str, ...]


PACKAGES: Final = (
    Package("tabler", "@tabler/core/dist/css", ("tabler.min.css", "tabler.min.css.map")),
    Package("icons", "@tabler/icons-sprite/dist", ("tabler-sprite-nostroke.svg",)),
    Package("inter", "@fontsource-variable/inter", ("index.css", "files/*-wght-normal.woff2")),
    Package("uplot", "uplot/dist", ("uPlot.esm.js", "uPlot.min.css")),
)


class VendorFinder(BaseFinder):
    """Serves `vendor/<package>/<file>` out of node_modules."""

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        missing = [package.folder for package in PACKAGES if not folder_of(package).is_dir()]
        if not missing:
            return []
        return [
            Error(
                f"Front-end packages are not installed: {', '.join(missing)}",
                hint="Run `make demo`, or `npm ci --ignore-scripts` beside package.json.",
                id="muxflow.E010",
            )
        ]

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = [str(file) for name, file in vendor_files() if name == path]
        if find_all:
            return found
        return found[0] if found else None

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for package in PACKAGES:
            storage = FileSystemStorage(location=folder_of(package))
            storage.prefix = f"vendor/{package.prefix}"  # type: ignore[attr-defined]
            for file in files_of(package):
                yield file.relative_to(folder_of(package)).as_posix(), storage


def vendor_files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for file in files_of(package):
            yield f"vendor/{package.prefix}/{file.relative_to(folder_of(package)).as_posix()}", file


def files_of(package: Package) -> list[Path]:
    return [file for pattern in package.files for file in sorted(folder_of(package).glob(pattern))]


def folder_of(package: Package) -> Path:
    return Path(settings.BASE_DIR) / "node_modules" / package.folder
