"""The driver through ctypes, for the Python programs of these tests. Needs nothing but Python."""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p

__all__ = ["GIB", "MIB", "Cuda", "byref", "c_float", "c_int", "c_size_t", "c_uint32", "c_uint64"]
__all__ += ["c_void_p", "ctypes", "cuda", "tell"]

MIB = 1 << 20
GIB = 1 << 30


class Cuda:
    """`cuda.cuInit(0)` returns the code; `cuda.ok("cuInit", 0)` insists on success.

    Integers are passed as 64 bits, which serves every integer and pointer parameter alike.
    """

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str):
        function = getattr(self.library, name)
        return lambda *arguments: function(*map(_wide, arguments))

    def ok(self, name: str, *arguments) -> None:
        code = getattr(self, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    def start(self) -> None:
        """Makes the primary context current."""
        context = c_void_p()
        self.ok("cuInit", 0)
        self.ok("cuDevicePrimaryCtxRetain", byref(context), 0)
        self.ok("cuCtxSetCurrent", context)

    def make(self, name: str, *arguments) -> int:
        """Calls what puts a handle or an address into its first parameter, and returns that."""
        made = c_uint64()
        self.ok(name, byref(made), *arguments)
        return made.value

    def read(self, name: str, *arguments, kind=c_uint64) -> int:
        value = kind()
        self.ok(name, *arguments, byref(value))
        return value.value

    def kernel(self, name: str) -> int:
        module = self.make("cuModuleLoadData", b"")
        return self.make("cuModuleGetFunction", module, name.encode())

    def launch(self, function: int = 0, blocks: int = 1, stream: int = 0) -> int:
        return self.cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, stream, None, None)

    def used(self) -> int:
        """Bytes that the device holds for all processes, as only the stand-in can tell."""
        device, own = c_uint64(), c_uint64()
        self.ok("stubMemoryUsed", byref(device), byref(own))
        return device.value

    def address_of(self, base: str, version: int, flags: int = 0) -> tuple[int, int | None, int]:
        """`cuGetProcAddress_v2`: its code, the pointer or None, the status."""
        found, status = c_void_p(), c_int(-1)
        code = self.cuGetProcAddress_v2(base.encode(), byref(found), version, flags, byref(status))
        return code, found.value, status.value

    def export(self, symbol: str) -> int | None:
        """Where the driver has the exported name, or None."""
        try:
            function = getattr(self.library, symbol)
        except AttributeError:
            return None
        return ctypes.cast(function, c_void_p).value


def _wide(argument):
    return c_uint64(argument) if isinstance(argument, int) else argument


def tell(**values) -> None:
    sys.stdout.write(json.dumps(values) + "\n")


cuda = Cuda()
