"""Just enough of the CUDA driver, through ctypes, for the programs of the demo's real node.

The stand-in driver reads its settings when it is loaded, so they must be set before a `Gpu` is
made; `join_shared_gpus` takes them from what an MPS client is given anyway.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

LIBRARY: Final = "libcuda.so.1"
# In the folder that holds the daemons' folders.
SHARED_FILE: Final = "gpu"
MOST_GPUS: Final = "16"


class CudaError(RuntimeError):
    """A call of the driver failed with `code`."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name} returned {code}")
        self.code = code


def join_shared_gpus() -> None:
    """For a client that knows nothing but the pipe directory of its daemon, as a job does."""
    shared = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]).parents[1] / SHARED_FILE
    os.environ.update({"STUB_MPS": str(shared), "STUB_GPUS": MOST_GPUS, "STUB_TIME": "1"})


class Gpu:
    """The device's primary context with one stream, and kernels by name: `serve_500us` takes
    500 µs a block."""

    def __init__(self) -> None:
        """Raises CudaError, and OSError without a driver."""
        self._library = ctypes.CDLL(LIBRARY)
        self._call("cuInit", 0)
        self._call("cuCtxSetCurrent", self._made("cuDevicePrimaryCtxRetain", 0))
        self._module = self._made("cuModuleLoadData", b"")
        self._stream = self._made("cuStreamCreate", 1)
        self._kernels: dict[str, int] = {}

    def launch(self, kernel: str, blocks: int) -> None:
        """Queues it and returns. Raises CudaError."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._made("cuModuleGetFunction", self._module, kernel.encode())
        shape = (blocks, 1, 1, 128, 1, 1, 0)
        self._call("cuLaunchKernel", self._kernels[kernel], *shape, self._stream, None, None)

    def finish(self) -> None:
        """Waits for all that was launched. Raises CudaError."""
        self._call("cuStreamSynchronize", self._stream)

    def allocate(self, size_bytes: int) -> None:
        """Until the process ends. Raises CudaError."""
        self._made("cuMemAlloc_v2", size_bytes)

    def _made(self, name: str, *arguments: object) -> int:
        """What the call puts into its first parameter."""
        made = ctypes.c_uint64()
        self._call(name, ctypes.byref(made), *arguments)
        return made.value

    def _call(self, name: str, *arguments: object) -> None:
        """Integers are passed as 64 bits, whatever they are."""
        wide = [ctypes.c_uint64(it) if isinstance(it, int) else it for it in arguments]
        if code := int(getattr(self._library, name)(*wide)):
            raise CudaError(name, code)
