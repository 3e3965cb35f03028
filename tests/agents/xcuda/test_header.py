"""What we state of the driver's interface, against a CUDA header where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agents.xcuda import generate

ROOT = Path(__file__).resolve().parents[3]
XCUDA = ROOT / "agents" / "xcuda"
OURS = (XCUDA / "src" / "cuda.h").read_text()
TABLES_OF = 13000  # the version of CUDA that the committed tables are of

STRUCTS = {
    name: re.findall(r"[* ](\w+)(?:\[\d+\])?(?=[,;])", re.sub(r"/\*.*?\*/", "", body))
    for body, name in re.findall(r"^typedef struct \w+ \{\n(.*?)^\} (CU\w+);", OURS, re.M | re.S)
}
BY_VALUE = ["CUdevice", "CUdeviceptr", "CUdeviceptr_v1", "CUmemGenericAllocationHandle", "CUresult"]
CONSTANTS = [
    *re.findall(r"^    (CU\w+) = \d+,", OURS, re.M),
    *re.findall(r"^#define (CU\w+) [\d(]", OURS, re.M),
]


@pytest.fixture(scope="module")
def include() -> Path:
    for place in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if place and (Path(place) / "include" / "cudaTypedefs.h").exists():
            return Path(place) / "include"
    pytest.skip("data: no CUDA header in CUDA_HOME or /usr/local/cuda")


def layout(folder: Path, header: str, options: list[str]) -> dict[str, int]:
    """Sizes, offsets and values as a compiler takes them from the header."""
    expressions = {f"sizeof({name})": f"sizeof({name})" for name in [*STRUCTS, *BY_VALUE]}
    expressions |= {
        f"{name}.{field}": f"offsetof({name}, {field})"
        for name, fields in STRUCTS.items()
        for field in fields
    }
    expressions |= {name: name for name in CONSTANTS}
    lines = "".join(
        f'    printf("{name} %ld\\n", (long)({it}));\n' for name, it in expressions.items()
    )
    source = folder / "layout.c"
    source.write_text(
        f"#include <stddef.h>\n#include <stdio.h>\n#include {header}\nint main(void) {{\n{lines}}}"
    )
    program = folder / "layout"
    subprocess.run(["gcc", "-w", *options, "-o", program, source], check=True)
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in told.splitlines())}


def test_structures_and_codes_are_those_of_the_driver(include, tmp_path):
    ours = layout(tmp_path, '"cuda.h"', ["-iquote", str(XCUDA / "src")])
    internal = ["-D__CUDA_API_VERSION_INTERNAL", f"-I{include}"]
    theirs = layout(tmp_path, "<cuda.h>", internal)
    assert len(ours) > 150
    assert ours == theirs


def test_the_tables_are_what_the_generator_writes(include, tmp_path, monkeypatch):
    version = re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text())
    if version is None or int(version[1]) != TABLES_OF:
        pytest.skip(f"data: the CUDA header is not of {TABLES_OF}")
    for name in ("src", "driver"):
        (tmp_path / name).mkdir()
    for name in ("hooks.txt", "src/cuda.h"):
        shutil.copy(XCUDA / name, tmp_path / name)
    monkeypatch.setattr(generate, "HERE", tmp_path)
    monkeypatch.setattr(generate, "STUB", tmp_path / "driver")
    generate.main(str(include))
    for name in ("src/hooks.inc", "src/variants.inc", "src/borrowed.inc", "version.map"):
        assert (tmp_path / name).read_text() == (XCUDA / name).read_text(), name
    stub = ROOT / "agents" / "stub" / "driver" / "entry_points.inc"
    assert (tmp_path / "driver" / "entry_points.inc").read_text() == stub.read_text()
