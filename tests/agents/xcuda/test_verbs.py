"""The verbs of the root Makefile build xCUDA where they can, and go on where they cannot."""

from __future__ import annotations

import os
import subprocess

from tests.agents.xcuda.running import ROOT


def make(*arguments: str) -> str:
    told = {name: text for name, text in os.environ.items() if not name.startswith("M")}
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=told, capture_output=True, text=True, check=True, timeout=9
    )
    return done.stdout + done.stderr


def test_without_a_compiler_one_line_says_so_and_what_to_install():
    (line,) = make("xcuda-built", "CC=no-such-compiler").splitlines()
    assert "no C compiler" in line
    assert "apt install gcc libc6-dev" in line


def test_the_demo_and_the_tests_build_it():
    for verb in ("demo", "test"):
        assert "-C agents/xcuda" in make("--dry-run", verb)
