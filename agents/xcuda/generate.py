"""Write the tables of the driver's interface from a CUDA header and hooks.txt.

    python agents/xcuda/generate.py [/usr/local/cuda/include]

The results are committed, so that neither a build nor its machine needs CUDA. They hold names,
versions and, for what is hooked or called, parameter types reduced to their binary form: facts of
the interface, and nothing of the header's text. Needs `gcc` to expand the header.
"""

from __future__ import annotations

import re
import string
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUB = HERE.parent / "stub" / "driver"
PROTOTYPE = re.compile(r"^\s*(?:CUresult )?(cu\w+)\(([^)]*)\);", re.MULTILINE)
ROW = re.compile(r"\(\s*\*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)")
VARIANT = re.compile(r"(?:_v(\d+))?(_ptds|_ptsz)?")
RENAMED = {("cuGraphInstantiate", 12000): "cuGraphInstantiateWithFlags"}  # not by a suffix
BUILT_IN = {"char", "short", "int", "unsigned", "unsigned int", "unsigned char", "unsigned short"}
BUILT_IN |= {"unsigned long long", "size_t", "float", "void"}
SPELLED = {"cuuint32_t": "unsigned int", "cuuint64_t": "unsigned long long", "CUdevice_v1": "int"}
WARNING = "/* Written by agents/xcuda/generate.py. */\n\n"


@dataclass(frozen=True, order=True)
class EntryPoint:
    """What `cuGetProcAddress(base, version, flags)` and `dlsym(symbol)` find."""

    base: str
    version: int
    per_thread: str  # "", "_ptds" or "_ptsz"
    symbol: str


@dataclass(frozen=True)
class Hooks:
    classes: dict[str, str]  # base name of the driver's interface -> class
    stated: dict[str, str]  # exported name of NVML -> parameters
    libc: list[str]
    borrowed: list[str]


def main(include: str) -> None:
    header = expand(include)
    prototypes = {
        name: " ".join(parameters.split()) for name, parameters in PROTOTYPE.findall(header)
    }
    entry_points = find_entry_points(header, set(prototypes))
    hooks = read_hooks()
    types = Types(header)
    symbols = {
        symbol: base
        for base in hooks.classes
        for symbol in prototypes
        if symbol.startswith(base) and VARIANT.fullmatch(symbol, len(base))
    }
    write(
        HERE / "src" / "hooks.inc",
        "/* HOOK(class, exported name, parameters, their names, stream) by name, then\n"
        " * BASE(name of which every variant is meant to be hooked), by name. */\n",
        [
            hook_row(hooks.classes[base], symbol, types.reduce(prototypes[symbol]))
            for symbol, base in symbols.items()
        ]
        + [hook_row("NVML", symbol, split(stated)) for symbol, stated in hooks.stated.items()],
        [f"BASE({base})" for base in hooks.classes],
    )
    write(
        HERE / "src" / "borrowed.inc",
        "/* BORROW(exported name, parameters) */\n",
        [f"BORROW({it}, ({named(types.reduce(prototypes[it]))}))" for it in hooks.borrowed],
    )
    write(
        HERE / "src" / "variants.inc",
        "/* VARIANT(base name, version that introduced it, flags that ask for it, exported name):\n"
        " * all that cuGetProcAddress finds of what is hooked, by base name. */\n",
        [
            f"VARIANT({it.base}, {it.version}, {flags(it)}, {it.symbol})"
            for it in entry_points
            if it.symbol in symbols
        ],
    )
    write(
        STUB / "entry_points.inc",
        "/* ENTRY(base name, version that introduced it, 1: of the per-thread default stream,\n"
        " * exported name): all that the driver of CUDA 13.0 has. */\n",
        [
            f"ENTRY({it.base}, {it.version}, {int(bool(it.per_thread))}, {it.symbol})"
            for it in entry_points
        ],
    )
    (HERE / "version.map").write_text(version_map([*symbols, *hooks.stated, *hooks.libc]))


def expand(include: str) -> str:
    """Return the header with every variant declared and without comments."""
    command = ["gcc", "-E", "-P", "-xc", "-D__CUDA_API_VERSION_INTERNAL", f"-I{include}", "-"]
    source = "#include <cudaTypedefs.h>\n"
    return subprocess.run(command, input=source, text=True, capture_output=True, check=True).stdout


def find_entry_points(header: str, symbols: set[str]) -> list[EntryPoint]:
    """Pair the versions of each base name with its exported names.

    The header states the two apart, but both only ever grow: the oldest version is the name
    without a suffix, the next one that with `_v2`, and so on. Raises SystemExit if one is short.
    """
    versions: dict[tuple[str, str], set[int]] = {}
    for base, version, per_thread in ROW.findall(header):
        if (base, int(version)) not in RENAMED:
            versions.setdefault((base, per_thread), set()).add(int(version))
    found = [EntryPoint(base, version, "", symbol) for (base, version), symbol in RENAMED.items()]
    for (base, per_thread), known in versions.items():
        names = variants(base, per_thread, symbols)
        if len(names) != len(known):
            raise SystemExit(f"{base}{per_thread}: {names} for the versions {sorted(known)}")
        pairs = zip(sorted(known), names, strict=True)
        found += [EntryPoint(base, version, per_thread, name) for version, name in pairs]
    return sorted(found)


def flags(entry_point: EntryPoint) -> str:
    return "CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM" if entry_point.per_thread else "0"


def variants(base: str, per_thread: str, symbols: set[str]) -> list[str]:
    """Return the exported names of a base, oldest first."""
    names = [base, *(f"{base}_v{number}" for number in range(2, 10))]
    return [name for it in names if (name := it + per_thread) in symbols]


def read_hooks() -> Hooks:
    hooks = Hooks({}, {}, [], [])
    for line in (HERE / "hooks.txt").read_text().splitlines():
        kind, _, names = line.partition("#")[0].strip().partition(" ")
        match kind:
            case "":
                pass
            case "NVML":
                name, parameters = names.strip().rstrip(")").split("(")
                hooks.stated[name] = parameters
            case "LIBC":
                hooks.libc.extend(names.split())
            case "BORROW":
                hooks.borrowed.extend(names.split())
            case _:
                hooks.classes.update(dict.fromkeys(names.split(), kind))
    return hooks


class Types:
    """Reduces a parameter's type to one that src/cuda.h declares and that is passed alike."""

    def __init__(self, header: str) -> None:
        ours = (HERE / "src" / "cuda.h").read_text()
        self.ours = set(re.findall(r"^(?:typedef [^{]*?|\} )\*?(\w+);", ours, re.MULTILINE))
        self.ours |= set(re.findall(r"^typedef void \(\*(\w+)\)", ours, re.MULTILINE))
        self.enums = set(re.findall(r"typedef enum \w+ \{[^}]*\} (\w+);", header))
        self.handles = set(re.findall(r"typedef struct \w+ \*(\w+);", header))

    def reduce(self, parameters: str) -> list[str]:
        return [self.reduced(it) for it in split(parameters)] if parameters != "void" else []

    def reduced(self, parameter: str) -> str:
        constant, base, stars = re.fullmatch(  # type: ignore[union-attr]
            r"(const )?([\w ]+?) *((?:\* *(?:const *)?)*)(?:\b\w+)?", parameter
        ).groups()
        stars = stars.replace("const", "").replace(" ", "")
        base = SPELLED.get(base, base)
        known = base if base in self.ours | BUILT_IN else re.sub(r"_v\d+$", "", base)
        if known in self.ours | BUILT_IN:
            return f"{constant or ''}{known} {stars}".strip()
        if stars:
            return f"{constant or ''}void *"
        if base in self.enums:
            return "int"
        if base in self.handles:
            return "void *"
        raise SystemExit(f"src/cuda.h lacks {base}, which is passed by value")


def split(parameters: str) -> list[str]:
    return [it.strip() for it in parameters.split(",")]


def hook_row(kind: str, symbol: str, types: list[str]) -> str:
    names = ", ".join(string.ascii_lowercase[: len(types)])
    return f"HOOK({kind}, {symbol}, ({named(types)}), ({names}), {stream(symbol, types)})"


def stream(symbol: str, types: list[str]) -> str:
    """Return the stream that a call is for, as a function without a suffix would be told it."""
    own = string.ascii_lowercase[types.index("CUstream")] if "CUstream" in types else "0"
    return f"PER_THREAD({own})" if symbol.endswith(("_ptsz", "_ptds")) else own


def named(types: list[str]) -> str:
    pairs = zip(types, string.ascii_lowercase, strict=False)
    return ", ".join(f"{it}{'' if it.endswith('*') else ' '}{name}" for it, name in pairs) or "void"


def write(path: Path, explanation: str, *tables: list[str]) -> None:
    def name(row: str) -> str:
        return re.split(r"[(), ]+", row)[2 if row.startswith("HOOK") else 1]

    body = "\n\n".join("\n".join(sorted(table, key=name)) for table in tables)
    path.write_text(f"{WARNING}{explanation}\n{body}\n")


def version_map(symbols: list[str]) -> str:
    """Without a version's name: such a definition also answers a request for a version."""
    names = "".join(f"        {symbol};\n" for symbol in sorted(symbols))
    return f"{WARNING}{{\n    global:\n{names}    local:\n        *;\n}};\n"


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["/usr/local/cuda/include"])
