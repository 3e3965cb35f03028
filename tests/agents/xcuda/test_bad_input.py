"""Whatever is wrong with a block or a setting: one clear line, and CUDA as promised."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from agents.control_block import POLICY, STATS, ControlBlock
from tests.agents.xcuda.running import BUILD
from tests.agents.xcuda.watching import write_raw

INIT = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); print(cuda.cuInit(0), cuda.cuInit(0))",
]
TAKEN, REFUSED = "0 0\n", "802 802\n"


def truncate(name: str, size: int):
    return lambda block: os.truncate(block.directory / name, size)


def write(layout, name, value):
    return lambda block: write_raw(block, layout, name, value)


def replace(name: str, make):
    def spoil(block: ControlBlock) -> None:
        (block.directory / name).unlink()
        make(block.directory / name)

    return spoil


def foreign(path: Path) -> None:
    path.write_bytes(os.urandom(16384))


def itself(path: Path) -> None:
    path.symlink_to(path)


SPOILED = {
    "an empty policy": (truncate("policy", 0), "policy is truncated"),
    "a truncated policy": (truncate("policy", POLICY.size - 1), "policy is truncated"),
    "empty stats": (truncate("stats", 0), "stats is truncated"),
    "truncated stats": (truncate("stats", STATS.size - 1), "stats is truncated"),
    "a foreign policy": (replace("policy", foreign), "policy is no file of a control block"),
    "foreign stats": (replace("stats", foreign), "stats is no file of a control block"),
    "a policy of another ABI": (write(POLICY, "abi", 2), "policy is of ABI 2"),
    "stats of another ABI": (write(STATS, "abi", 3), "stats is of ABI 3"),
    "another generation": (write(STATS, "generation", 2), "of another generation"),
    "another number of slots": (write(STATS, "slots", 65), "another number of slots"),
    "a senseless policy": (write(POLICY, "mode", 9), "makes no sense"),
    "an unfinished policy": (write(POLICY, "sequence", 3), "makes no sense"),
    "no policy": (lambda block: (block.directory / "policy").unlink(), "No such file"),
    "no stats": (lambda block: (block.directory / "stats").unlink(), "No such file"),
    "a folder": (replace("policy", Path.mkdir), "policy is no file of a control block"),
    "a folder for stats": (replace("stats", Path.mkdir), "cannot be opened (Is a directory)"),
    "a pipe that nobody writes to": (replace("policy", os.mkfifo), "policy is truncated"),
    "a pipe for stats": (replace("stats", os.mkfifo), "stats is truncated"),
    "a link to itself": (replace("policy", itself), "Too many levels of symbolic links"),
}


@pytest.mark.parametrize("what", SPOILED)
@pytest.mark.parametrize(("required", "expected"), [("1", REFUSED), ("0", TAKEN)])
def test_a_block_that_is_none_is_said_in_one_line(xcuda, make_block, what, required, expected):
    spoil, complaint = SPOILED[what]
    block = make_block()
    spoil(block)
    ran = xcuda.run(INIT, block=block, env={"MUXFLOW_XCUDA_REQUIRED": required})
    assert (ran.returncode, ran.stdout) == (0, expected)
    assert ran.stderr.count("\n") == 1
    assert complaint in ran.stderr
    assert ("CUDA is refused" in ran.stderr) == (required == "1")


PATHS = {
    "nowhere": "/nowhere/at/all",
    "nothing": "",
    "a file": "/etc/hostname",
    "a device": "/dev/zero",
    "a long name": "/" + "x" * 5000,
    "a name with a line break": "/nowhere\nxcuda: all is well",
}


@pytest.mark.parametrize("what", PATHS)
def test_a_path_that_leads_nowhere_is_said_in_one_line(xcuda, what):
    settings = {"MUXFLOW_XCUDA_DIR": PATHS[what], "MUXFLOW_XCUDA_REQUIRED": "1"}
    ran = xcuda.run(INIT, env=settings)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (0, REFUSED, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="root: only it can become somebody else")
def test_a_block_that_may_not_be_read_is_said_in_one_line(xcuda, make_block):
    block = make_block()
    (block.directory / "policy").chmod(0)
    load, call = INIT[-1].split("; print")
    code = f"import os; {load}; os.setgid(65534); os.setuid(65534); print{call}"
    ran = xcuda.run([*INIT[:-1], code], block=block)
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
    assert "Permission denied" in ran.stderr


def test_a_block_that_is_required_and_not_named_is_said_in_one_line(xcuda):
    ran = xcuda.run(INIT, env={"MUXFLOW_XCUDA_REQUIRED": "1"})
    assert (ran.stdout, ran.stderr.count("\n")) == (REFUSED, 1)
    assert "MUXFLOW_XCUDA_DIR is not set" in ran.stderr


SETTINGS = {
    "MUXFLOW_XCUDA_MEMORY": (
        "",
        "2Gib",
        "-1GiB",
        "1e9",
        "99999999999999999999GiB",
        "0",
        "x" * 9999,
    ),
    "MUXFLOW_XCUDA_LAUNCHES_PER_S": ("", "fast", "-5", "1.5", "0", "18446744073709551617"),
    "MUXFLOW_XCUDA_BLOCKS_PER_S": ("", "0x10", "nan"),
    "MUXFLOW_XCUDA_DUTY": ("", "0", "101", "50%"),
    "MUXFLOW_XCUDA_INFLIGHT": ("", "-1", "4000000000"),
    "MUXFLOW_XCUDA_GRACE_S": ("", "soon", "-1", "1e3", "100000"),
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in SETTINGS.items() for text in texts]
)
def test_a_malformed_limit_is_said_in_one_line_and_is_off(xcuda, name, text):
    ran = xcuda.run(INIT, env={name: text})
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (0, TAKEN, 1)
    assert ran.stderr.startswith(f"xcuda: {name}=")


@pytest.mark.parametrize("name", [*SETTINGS, "MUXFLOW_XCUDA_REQUIRED"])
def test_a_malformed_setting_of_a_required_block_refuses_cuda(xcuda, make_block, name):
    settings = {"MUXFLOW_XCUDA_REQUIRED": "1", name: "wrong"}
    ran = xcuda.run(INIT, block=make_block(), env=settings)
    assert (ran.stdout, ran.stderr.count("\n")) == (REFUSED, 1)
    assert "CUDA is refused" in ran.stderr


def test_every_malformed_setting_has_its_line(xcuda):
    ran = xcuda.run(INIT, env=dict.fromkeys(SETTINGS, "wrong"))
    assert ran.stdout == TAKEN
    assert sorted(line.split("=")[0] for line in ran.stderr.splitlines()) == sorted(
        f"xcuda: {name}" for name in SETTINGS
    )


def test_without_cuda_nothing_is_said(xcuda):
    ran = xcuda.run(
        ["/bin/true"], env={**dict.fromkeys(SETTINGS, "wrong"), "MUXFLOW_XCUDA_DIR": "/x"}
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_with_a_closed_stderr_nothing_is_lost_but_the_line(xcuda):
    ran = xcuda.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *INIT], env={"MUXFLOW_XCUDA_DIR": "/nowhere"}
    )
    assert (ran.returncode, ran.stdout) == (0, TAKEN)


NOBODY_READS = {
    "full": "os.set_inheritable(reader, True)\nos.set_blocking(writer, False)\n"
    "while os.write(writer, bytes(512)): pass",
    "broken": "os.close(reader)",
}


@pytest.mark.parametrize("pipe", NOBODY_READS)
def test_a_line_that_nobody_reads_neither_ends_nor_holds_up_the_program(xcuda, pipe):
    wrapper = f"""
import contextlib, os, signal, sys
reader, writer = os.pipe()
with contextlib.suppress(BlockingIOError):
{textwrap.indent(NOBODY_READS[pipe], "    ")}
os.set_blocking(writer, True)
os.dup2(writer, 2)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
    loop = [str(BUILD / "programs" / "loop"), "launch", "--count", "1"]
    ran = xcuda.run(
        [sys.executable, "-I", "-S", "-c", wrapper, *loop], env={"MUXFLOW_XCUDA_DIR": "/nowhere"}
    )
    assert (ran.returncode, ran.told["failed"]) == (0, 0)
