"""The stand-in driver answers for its entry points as a driver of CUDA 13.0 does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENTRY = re.compile(r"^ENTRY\((\w+), (\d+), ([01]), (\w+)\)$", re.MULTILINE)

# Name, version and flags as CUDA's runtime asks for them, with what a driver of 13.0 gives.
ANSWERS = [
    ("cuInit", 2000, 0, "cuInit"),
    ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
    ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
    ("cuDeviceTotalMem", 3020, 0, "cuDeviceTotalMem_v2"),
    ("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2"),
    ("cuCtxCreate", 11040, 0, "cuCtxCreate_v3"),
    ("cuCtxGetDevice", 2000, 0, "cuCtxGetDevice"),
    ("cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"),
    ("cuCtxSynchronize", 2000, 0, "cuCtxSynchronize"),
    ("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2"),
    ("cuLaunchKernel", 4000, 0, "cuLaunchKernel"),
    ("cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz"),
    ("cuLaunchKernel", 12090, 0, "cuLaunchKernel"),
    ("cuMemAlloc", 2000, 0, "cuMemAlloc"),
    ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
    ("cuMemAlloc", 3020, 2, "cuMemAlloc_v2"),  # has no variant for the per-thread stream
    ("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"),
    ("cuMemPrefetchAsync", 8000, 2, "cuMemPrefetchAsync_ptsz"),
    ("cuMemPrefetchAsync", 12020, 0, "cuMemPrefetchAsync_v2"),
    ("cuStreamGetCaptureInfo", 12030, 2, "cuStreamGetCaptureInfo_v3_ptsz"),
    ("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"),
]


def test_a_request_gets_the_newest_variant_that_its_version_knows(bare):
    told = bare.python(
        f"""
        for base, version, flags, symbol in {ANSWERS}:
            code, found, status = cuda.address_of(base, version, flags)
            assert (code, status) == (0, 0), (base, version, flags, code, status)
            assert found == cuda.export(symbol), (base, version, flags, symbol)
        tell(asked={len(ANSWERS)})
        """,
        preload=False,
    )
    assert told == {"asked": len(ANSWERS)}


def test_a_request_that_cannot_be_met_says_why(bare):
    told = bare.python(
        """
        tell(
            empty=cuda.address_of("", 0),
            unknown=cuda.address_of("cuNothing", 12000),
            exported=cuda.address_of("cuMemAlloc_v2", 12000),
            early=cuda.address_of("cuMemAllocAsync", 11010),
            late=cuda.address_of("cuInit", 13010)[0],
            table=cuda.cuGetExportTable(byref(c_void_p()), b"0123456789abcdef"),
        )
        """,
        preload=False,
    )
    assert told == {
        "empty": [0, None, 1],
        "unknown": [0, None, 1],
        "exported": [0, None, 1],
        "early": [0, None, 2],
        "late": 1,
        "table": 500,
    }


def test_every_variant_is_exported_at_an_address_of_its_own(stub):
    symbols = {row[3] for row in _entry_points()}
    listing = ["nm", "-D", "--defined-only", stub / "libcuda.so.1"]
    told = subprocess.run(listing, capture_output=True, text=True, check=True)
    addresses = {it.split()[2]: it.split()[0] for it in told.stdout.splitlines()}
    assert symbols <= addresses.keys()
    assert len({addresses[symbol] for symbol in symbols}) == len(symbols)
    others = addresses.keys() - symbols
    assert others == {"stubMemoryUsed", "stubInFlight"}


def test_every_entry_point_is_found_by_its_own_version(bare):
    told = bare.python(
        f"""
        for base, version, per_thread, symbol in {_entry_points()}:
            found = cuda.address_of(base, int(version), 2 * int(per_thread))
            assert found == (0, cuda.export(symbol), 0), (base, version, per_thread, symbol)
        tell(right=True)
        """,
        preload=False,
    )
    assert told == {"right": True}


def test_the_requests_of_a_real_runtime_are_met(bare, data_folder):
    path = data_folder / "cuda" / "cudart13_getprocaddress_requests.txt"
    if not path.exists():
        pytest.skip("data: no cuda/cudart13_getprocaddress_requests.txt in MUXFLOW_DATA")
    told = bare.python(
        f"""
        requests = [line.rsplit(" ", 2) for line in open({str(path)!r})]
        bad = [r for r in requests if r[0] and cuda.address_of(r[0], int(r[1]), int(r[2]))[2]]
        tell(requests=len(requests), bad=bad)
        """,
        preload=False,
    )
    assert told["requests"] >= 440
    assert told["bad"] == []


@pytest.mark.parametrize("via", ["direct", "dlsym", "proc"])
@pytest.mark.parametrize("kind", ["launch", "launch-sync", "copy", "graph", "alloc", "mixed"])
def test_a_program_runs_however_it_reaches_the_driver(bare, via, kind):
    ran = bare.run("loop", kind, "--via", via, "--count", 50, "--threads", 2, preload=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.told["failed"] == 0
    assert ran.told["calls"] >= 100


def _entry_points() -> list[tuple[str, ...]]:
    tables = sorted((ROOT / "agents" / "stub" / "driver").glob("*_points.inc"))
    assert len(tables) == 2
    return [match.groups() for table in tables for match in ENTRY.finditer(table.read_text())]
