"""Tell the service manager that this process is up (the sd_notify datagram, READY=1)."""

from __future__ import annotations

import os
import socket


def notify_ready() -> None:
    """Does nothing where no service manager asked for it in NOTIFY_SOCKET."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.connect(address)
        manager.send(b"READY=1")
