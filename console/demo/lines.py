"""One line to a Unix socket of the demo, one line back."""

from __future__ import annotations

import socket

TIMEOUT_S = 5.0
LINE_BYTES = 65_536


def exchange(path: str, line: bytes) -> bytes:
    """Raises OSError when nobody answers there in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(path)
        connection.sendall(line)
        with connection.makefile("rb") as answers:
            return answers.readline(LINE_BYTES)
