"""A program gets a hook exactly where one exists, always of the variant that it asked for."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
XCUDA = ROOT / "agents" / "xcuda"
HOOKED = set(re.findall(r"^HOOK\(\w+, (cu\w+),", (XCUDA / "src" / "hooks.inc").read_text(), re.M))
ENTRIES = re.findall(
    r"^ENTRY\((\w+), (\d+), ([01]), (\w+)\)",
    (ROOT / "agents" / "stub" / "driver" / "entry_points.inc").read_text(),
    re.M,
)
EXPORTED = {symbol for *_, symbol in ENTRIES}

# Every version of every function as it was introduced, just before and long after, and with the
# flag for the per-thread default stream: all that a runtime of whatever age may ask for.
REQUESTS = sorted(
    {
        (base, asked, flags)
        for base, version, *_ in ENTRIES
        for asked in (int(version) - 10, int(version), 13000)
        for flags in (0, 1, 2)
    }
)

# Names the file and the symbol that a pointer leads to.
WHERE = """
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", c_void_p), ("name", ctypes.c_char_p),
                ("address", c_void_p)]

program = ctypes.CDLL(None)
program.dlsym.restype = program.dlvsym.restype = c_void_p

def where(pointer):
    if not pointer:
        return None
    info = Info()
    assert program.dladdr(c_void_p(pointer), byref(info)), hex(pointer)
    return [info.file.decode().rpartition("/")[2], (info.name or b"").decode()]
"""


def answers(runner, requests, preload, **env):
    code = f"""
        requests = json.load(open({str(requests)!r}))
        print(json.dumps([
            [code, where(found), status]
            for code, found, status in (cuda.address_of(*request) for request in requests)
        ]))
    """
    return runner.python(f"{WHERE}\n{_dedented(code)}", preload=preload, env=env)


def is_right(without, under, nameless=False):
    """Whether `under` is what the driver answers `without` us, or the hook of that very variant.

    `nameless`: what a driver returns need not be one of its exports, and then has no name.
    """
    (code, found, status), (under_code, under_found, under_status) = without, under
    if (under_code, under_status) != (code, status):
        return False
    if found is None or under_found is None:
        return found is under_found
    symbol, hooked = found[1], found[1] in HOOKED
    if under_found[0] != ("libxcuda.so" if hooked else "libcuda.so.1"):
        return False
    return under_found[1] == symbol or (nameless and not hooked)


def logged(path):
    """What a real runtime asked for: base name, version, flags."""
    lines = (line.rsplit(" ", 2) for line in path.read_text().splitlines())
    return [(base.strip(), int(version), int(flags)) for base, version, flags in lines]


def assert_same_variants(xcuda, folder, requests, **env):
    path = folder / "requests"
    path.write_text(json.dumps(requests))
    bare, hooked = answers(xcuda, path, preload=False), answers(xcuda, path, preload=True, **env)
    for request, without, under in zip(requests, bare, hooked, strict=True):
        assert is_right(without, under, nameless=bool(env)), (request, without, under)
    return sum(under[1] is not None and under[1][0] == "libxcuda.so" for under in hooked)


def test_every_request_gets_the_hook_of_the_variant_that_the_driver_chose(xcuda, tmp_path):
    assert assert_same_variants(xcuda, tmp_path, REQUESTS) > 500


def test_a_driver_that_returns_other_addresses_than_its_exports_is_hooked_alike(xcuda, tmp_path):
    assert assert_same_variants(xcuda, tmp_path, REQUESTS, STUB_TRAMPOLINES="1") > 500


def test_a_real_runtime_gets_the_hooks_of_its_variants(xcuda, tmp_path, data_folder):
    path = data_folder / "cuda" / "cudart13_getprocaddress_requests.txt"
    if not path.exists():
        pytest.skip("data: no cuda/cudart13_getprocaddress_requests.txt in MUXFLOW_DATA")
    requests = logged(path)
    assert len(requests) == 440
    assert assert_same_variants(xcuda, tmp_path, requests) > 100


def test_every_exported_name_is_hooked_exactly_when_it_is_in_the_table(xcuda):
    found = xcuda.python(
        f"""
{WHERE}
print(json.dumps({{name: where(cuda.export(name)) for name in {sorted(EXPORTED)} }}))
"""
    )
    for name in EXPORTED:
        assert found[name] == ["libxcuda.so" if name in HOOKED else "libcuda.so.1", name]
    assert HOOKED <= EXPORTED


def test_dlvsym_and_the_scope_of_the_program_answer_as_without_us(xcuda):
    told = xcuda.python(
        f"""
{WHERE}
handle = c_void_p(cuda.library._handle)
tell(
    versioned=program.dlvsym(handle, b"cuMemAlloc_v2", b"none"),
    scope=where(program.dlsym(c_void_p(0), b"cuMemAlloc_v2")),
    nothing=program.dlsym(handle, b"cuMemAlloc_v9"),
)
"""
    )
    # The driver's names have no versions.
    assert told == {"versioned": None, "scope": ["libxcuda.so", "cuMemAlloc_v2"], "nothing": None}


def test_without_a_driver_a_program_finds_none(xcuda):
    told = xcuda.run(
        [
            sys.executable,
            "-c",
            "import ctypes, json; p = ctypes.CDLL(None); p.dlsym.restype = ctypes.c_void_p;"
            "print(json.dumps({'found': p.dlsym(ctypes.c_void_p(0), b'cuInit')}))",
        ]
    ).told
    assert told == {"found": None}


def test_a_driver_that_is_closed_and_opened_again_stays_hooked(xcuda):
    told = xcuda.python(
        f"""
{WHERE}
first = where(cuda.export("cuInit"))
program.dlclose(c_void_p(cuda.library._handle))
program.dlclose(c_void_p(cuda.library._handle))
cuda = Cuda()
cuda.start()
pointer = cuda.make("cuMemAlloc_v2", MIB)
tell(first=first, again=where(cuda.export("cuInit")), code=cuda.cuMemFree_v2(pointer))
"""
    )
    assert told == {
        "first": ["libxcuda.so", "cuInit"],
        "again": ["libxcuda.so", "cuInit"],
        "code": 0,
    }


# --- programs of C, compiled here ----------------------------------------------------------------


def compiled(folder, name, source, *options):
    path = folder / name
    (folder / f"{name}.c").write_text(source)
    command = ["gcc", "-D_GNU_SOURCE", "-O1", "-o", path, folder / f"{name}.c", *options]
    subprocess.run(command, check=True)
    return path


def test_rtld_next_means_the_library_after_the_caller(xcuda, library, tmp_path):
    second = compiled(
        tmp_path,
        "second.so",
        """
        #include <dlfcn.h>
        #include <time.h>
        clock_t clock(void) { return ((clock_t (*)(void))dlsym(RTLD_NEXT, "clock"))(); }
        """,
        "-shared",
        "-fPIC",
    )
    program = compiled(
        tmp_path, "program", "#include <time.h>\nint main(void) { return clock() == -1; }"
    )
    # The caller mistaken, the second library would be told to call itself, for ever.
    ran = xcuda.run([str(program)], env={"LD_PRELOAD": f"{library} {second}"})
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="data: one version of dlsym only")
def test_both_versions_of_dlsym_are_ours(xcuda, tmp_path):
    program = compiled(
        tmp_path,
        "program",
        r"""
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        __asm__(".symver old, dlsym@GLIBC_2.2.5");
        __asm__(".symver new, dlsym@GLIBC_2.34");
        extern void *old(void *, const char *);
        extern void *new(void *, const char *);
        int main(void)
        {
            Dl_info info;
            void *driver = dlopen("libcuda.so.1", RTLD_NOW);
            void *a = old(driver, "cuMemAlloc_v2"), *b = new(driver, "cuMemAlloc_v2");
            return !(a == b && dladdr(a, &info) && strstr(info.dli_fname, "libxcuda.so"));
        }
        """,
    )
    assert xcuda.run([str(program)]).returncode == 0


FUTURE_DRIVER = r"""
#include <string.h>
int cuInit(unsigned int flags) { return flags ? 1 : 0; }
int cuMemAlloc_v9(void) { return 77; }
int cuNothingOfOurs(void) { return 78; }
__attribute__((alias("cuNothingOfOurs"))) int cuLaunchGrid(void); /* merged by the linker */
int cuGetProcAddress_v2(const char *base, void **found, int version, unsigned long flags,
                        int *status)
{
    *found = strcmp(base, "cuMemAlloc") ? (void *)cuNothingOfOurs
             : version < 14000          ? (void *)0
                                        : (void *)cuMemAlloc_v9;
    return *status = 0;
}
"""


def test_a_variant_of_the_future_is_passed_on_and_counted(xcuda, make_block, tmp_path):
    folder = tmp_path / "future"
    folder.mkdir()
    compiled(folder, "libcuda.so.1", FUTURE_DRIVER, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    block = make_block()
    process = xcuda.python(
        f"""
{WHERE}
cuda.ok("cuInit", 0)
assert where(cuda.address_of("cuMemAlloc", 14000)[1]) == ["libcuda.so.1", "cuMemAlloc_v9"]
assert where(cuda.export("cuMemAlloc_v9")) == ["libcuda.so.1", "cuMemAlloc_v9"]
assert where(cuda.address_of("cuNothingOfOurs", 14000)[1])[0] == "libcuda.so.1"
assert cuda.cuMemAlloc_v9() == 77
print("ready", flush=True)
time.sleep(60)
""",
        ready=True,
        block=block,
        env={"LD_LIBRARY_PATH": str(folder)},
    )
    assert process.poll() is None
    assert block.read_slots()[0].unhooked >= 2


def _dedented(code: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in code.splitlines())


def test_a_sanitizer_that_is_preloaded_before_it_works(xcuda, library):
    """It asks for functions of the C library before its own in their place can be called."""
    compiler = os.environ.get("CC", "gcc")
    command = [compiler, "-print-file-name=libasan.so"]
    sanitizer = Path(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout[:-1]
    )
    if not sanitizer.is_absolute():
        pytest.skip("compiler: it has no address sanitizer to preload")
    preload = {"LD_PRELOAD": f"{sanitizer.resolve()}:{library}", "ASAN_OPTIONS": "detect_leaks=0"}
    limit = {"MUXFLOW_XCUDA_MEMORY": "1MiB"}
    ran = xcuda.run("loop", "alloc", "--count", 50, env=preload | limit)
    assert (ran.stderr, ran.told["first_error"]) == ("", 2)


def test_closing_the_library_takes_nothing_away(xcuda, library):
    """Its threads and its handlers go on."""
    code = f"""
        import _ctypes
        library = ctypes.CDLL({str(library)!r})
        code = library.cuInit(0)
        _ctypes.dlclose(library._handle)
        time.sleep(0.2)  # for a look around of its threads
        print(code)
        """
    assert xcuda.python(code, preload=False, env={"LD_PRELOAD": "libcuda.so.1"}) == 0
