"""The web process: `python -m console.serve`, uvicorn with what this console needs of it.

It ends in order: on SIGTERM it takes no new connections, sends its agents to another process while
it still serves what it knows, and then closes what is left.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import socket
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import uvicorn
from django.conf import settings

# First: it loads the apps that the hub's models belong to.
from console import asgi
from console.telemetry.hub import hub
from console.telemetry.sockets import Socket

# A fleet that comes back at once.
BACKLOG: Final = 4096
GRACE_S: Final = 10


class WebServer(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        if hub.is_running:
            await hub.hand_over()
        await super().shutdown(sockets)


def config(host: str, port: int, fd: int | None, grace_s: int, log_level: str) -> uvicorn.Config:
    """Compression is off: it would cost more than it saves, frames are deltas already. So are our
    pings: every socket is sent something every few seconds, so that TCP finds the dead ones."""
    return uvicorn.Config(
        asgi.application,
        host=host,
        port=port,
        fd=fd,
        backlog=BACKLOG,
        ws=Socket,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        lifespan="on",
        access_log=False,
        log_level=log_level,
        timeout_graceful_shutdown=grace_s,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m console.serve", description=__doc__)
    parser.add_argument("--host", default=os.environ.get("MUXFLOW_HOST", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=int(os.environ.get("MUXFLOW_PORT", "8000")))
    parser.add_argument("--fd", type=int, help="a socket that listens already")
    parser.add_argument("--grace-s", type=int, default=GRACE_S, help="for what is under way")
    parser.add_argument("--log-level", default="info")
    given = parser.parse_args(arguments)
    allow_many_connections()
    load_pages()
    keep_collections_short()
    made = config(given.host, given.port, given.fd, given.grace_s, given.log_level)
    WebServer(made).run()


def allow_many_connections() -> None:
    """Each agent and each tab is an open file; the soft limit is 1,024 on most systems."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def load_pages() -> None:
    """Else the first request does it, for a second in which no agent is answered."""
    import_module(settings.ROOT_URLCONF)


def keep_collections_short() -> None:
    """What was loaded by now lives as long as we do: the collector need not look at it. A fleet's
    messages leave no cycles, so it need not look often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


if __name__ == "__main__":
    main()
