"""Tools that a test needs and this machine may lack, from Debian's own packages."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Test processes that miss something at the same time take turns: apt-get does not.
TURN = Path("/var/lib/apt/muxflow-tests.lock")
TOOLS = Path(__file__).resolve().parent.parent / "var" / "tools"


def install(*packages: str) -> None:
    """Fetches them where a test run may do so: as root in CI, on Debian. Whoever asks looks for
    the tool afterwards."""
    if may_fetch():
        with _turn():
            _apt("update")
            _apt("install", "-y", "--no-install-recommends", *packages)


def unpack(package: str, file: str) -> str | None:
    """The path of one file of a package, without installing it: what it would start, or bring with
    it, nobody needs. None where `install` would do nothing."""
    path = TOOLS / Path(file).name
    if not path.exists() and may_fetch():
        TOOLS.mkdir(parents=True, exist_ok=True)
        with _turn(), tempfile.TemporaryDirectory(dir=TOOLS) as folder:
            _apt("download", package, folder=folder)
            if not any(Path(folder).iterdir()):
                _apt("update")
                _apt("download", package, folder=folder)
            for archive in Path(folder).glob("*.deb"):
                _take_out(archive, file, path)
    return str(path) if path.exists() else None


def may_fetch() -> bool:
    is_ci = os.geteuid() == 0 and os.environ.get("CI") == "true"
    return is_ci and shutil.which("apt-get") is not None


@contextmanager
def _turn() -> Iterator[None]:
    with TURN.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def _apt(*command: str, folder: str | None = None) -> None:
    subprocess.run(
        ["apt-get", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        cwd=folder,
        timeout=240,
        check=False,
    )


def _take_out(archive: Path, file: str, to: Path) -> None:
    """Whoever looks finds the whole file, or none."""
    command = ["dpkg-deb", "--fsys-tarfile", archive]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacked:
        with tarfile.open(fileobj=unpacked.stdout, mode="r|") as files:
            for member in files:
                if member.name == f"./{file}":
                    files.extract(member, archive.parent, filter="data")
                    break
        unpacked.kill()
    (archive.parent / file).rename(to)
