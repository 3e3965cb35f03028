"""What is preloaded into any process of any image disturbs none of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import debian

ROOT = Path(__file__).resolve().parents[3]
XCUDA = ROOT / "agents" / "xcuda"
CROSS = "aarch64-linux-gnu-gcc"
PACKAGES = ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")


def check_symbols(*target: str) -> None:
    """Runs the checks of the Makefile: exported names, versions of glibc, no public dlsym."""
    command = ["make", "--silent", "-C", XCUDA, *target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_but_hooks_is_exported_and_an_old_glibc_suffices(library):
    check_symbols("symbols", f"OUT={library.parent}")


def test_the_library_needs_only_the_c_library_and_names_its_older_parts(library):
    told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told.stdout))
    assert needed == {"libc.so.6", "libpthread.so.0", "libdl.so.2"}


def test_the_hooks_are_those_that_were_asked_for():
    asked = set(_hooks("LIBC", "BORROW", without=True).split())
    libc = set(_hooks("LIBC").split())
    table = (XCUDA / "src" / "hooks.inc").read_text()
    hooked = set(re.findall(r"^HOOK\(\w+, (\w+),", table, re.M))
    bases = set(re.findall(r"^BASE\((\w+)\)", table, re.M))
    exported = set(re.findall(r"^        (\w+);$", (XCUDA / "version.map").read_text(), re.M))
    assert bases == {name for name in asked if name.startswith("cu")}
    assert exported == hooked | libc
    suffix = re.compile(r"(_v\d+)?(_ptds|_ptsz)?$")
    assert {suffix.sub("", name) for name in hooked} == {suffix.sub("", name) for name in asked}


def _hooks(*classes: str, without: bool = False) -> str:
    """The names in hooks.txt of these classes, or of all others, without parameters."""
    lines = re.findall(r"^([A-Z]+) +([^(\n]*)", (XCUDA / "hooks.txt").read_text(), re.M)
    return " ".join(names for kind, names in lines if (kind in classes) != without)


@pytest.mark.timeout(300)
def test_it_is_built_for_aarch64_too(tmp_path):
    """Built and checked by its symbols, not run."""
    if not shutil.which(CROSS):
        debian.install(*PACKAGES)
    if not shutil.which(CROSS):
        pytest.skip(f"compiler: no {CROSS}; install {' and '.join(PACKAGES)}")
    check_symbols("aarch64", f"OUT={tmp_path}")
