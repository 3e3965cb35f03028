"""The small files in which the kernel tells how things are: /proc and its like.

Several of them are read each second of an agent's life, and the layers of a file object cost more
than the kernel's own work.
"""

from __future__ import annotations

import os
from typing import Final

CHUNK_BYTES: Final = 16_384


def read(path: str) -> str:
    """All of it; bytes that are no UTF-8 are replaced. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A read may end early, at the end of a record: only an empty one is the end of the file.
        chunks = []
        while chunk := os.read(descriptor, CHUNK_BYTES):
            chunks.append(chunk)
        return b"".join(chunks).decode(errors="replace")
    finally:
        os.close(descriptor)
