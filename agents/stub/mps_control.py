"""The part of the stand-in for `nvidia-cuda-mps-control` that puts questions to `mps_daemon.py`.

Runs as a file and imports next to nothing, so that a command costs milliseconds.
"""

from __future__ import annotations

import os
import socket
import sys

PIPE_DIRECTORY = "/tmp/nvidia-mps"  # noqa: S108  NVIDIA's own default
VERSION = "CUDA MPS Control binary version: 13010\n"
NOT_FOUND = "Cannot find MPS control daemon process\n"


def main(arguments: list[str]) -> int:
    if "-v" in arguments:
        sys.stdout.write(VERSION)
        return 0
    return converse()


def converse() -> int:
    """Each line of stdin is a command; the exit status is 0 while the daemon can be spoken to."""
    directory = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", PIPE_DIRECTORY)
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            sys.stdout.write(ask(line.strip(), directory))
            sys.stdout.flush()
        except PermissionError:
            sys.stderr.write("Failed to connect: permission denied\n")
            return 1
        except OSError:
            sys.stderr.write(NOT_FOUND)
            return 1
    return 0


def ask(command: str, directory: str) -> str:
    """The answer of the daemon that listens in `directory`. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as line:
        connect(line, directory)
        line.sendall(command.encode() + b"\n")
        line.shutdown(socket.SHUT_WR)
        heard = b""
        while piece := line.recv(1 << 16):
            heard += piece
        return heard.decode(errors="replace")


def connect(line: socket.socket, directory: str) -> None:
    """A socket's path is at most 108 bytes long; through an open folder it always fits."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        line.connect(f"/proc/self/fd/{folder}/control")
    finally:
        os.close(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
