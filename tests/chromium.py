"""A headless Chromium: named, unpacked from npm's, or installed."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "node_modules" / "@sparticuz" / "chromium" / "package.json"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox",  # it does not start as root with one, and shows nothing but our own pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str:
    """Return the path of an executable. Raises RuntimeError with the ways to have one."""
    named = os.environ.get("MUXFLOW_CHROMIUM")
    if found := named or unpacked() or installed():
        return found
    raise RuntimeError(
        "No Chromium for tests: npm's is not installed, or not made for this machine. Install one"
        f" ({', '.join(NAMES)}), or name its path in MUXFLOW_CHROMIUM."
    )


def installed() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def unpacked() -> str | None:
    """`@sparticuz/chromium` and its own libraries, unpacked once, behind a script that names them.

    It has no browser around it, and takes a third of the processor's time for each new page.
    """
    is_made_for = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    if not (is_made_for and PACKAGE.exists()):
        return None
    folder = ROOT / "var" / "chromium" / json.loads(PACKAGE.read_text())["version"]
    script = folder / "headless"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # The variable makes the package bring the libraries that a bare machine lacks.
        lambda_like = {"TMPDIR": str(folder), "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs24.x"}
        unpack = "import('@sparticuz/chromium').then(({ default: it }) => it.executablePath())"
        subprocess.run(
            [packaged_node(), "-e", unpack],
            cwd=ROOT,
            env={**os.environ, **lambda_like},
            timeout=120,
            check=True,
        )
        fonts = folder / "fonts.conf"
        fonts.write_text(
            "<fontconfig><dir>/usr/share/fonts</dir>"
            f"<dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>"
        )
        script.write_text(
            "#!/bin/sh\n"
            f"export FONTCONFIG_FILE='{fonts}' LD_LIBRARY_PATH='{folder}/al2023/lib'\n"
            "export LC_ALL=en_US.UTF-8\n"  # of none it makes a language that no page understands
            f"exec '{folder}/chromium' \"$@\"\n"
        )
        script.chmod(0o755)
    return str(script)


def packaged_node() -> str:
    """Return the Node that Playwright brings, so that none need be installed."""
    from playwright._impl._driver import compute_driver_executable

    return str(compute_driver_executable()[0])
