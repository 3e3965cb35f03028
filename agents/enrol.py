"""Trade a one-time token for this node's credentials."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import msgspec

from agents.wire import credentials as credentials_file
from agents.wire.cluster import ClusterGpu
from agents.wire.credentials import Credentials

TIMEOUT_S: Final = 15.0


class NotEnrolled(RuntimeError):
    """The console did not take the node; the text says why and what to do."""


def enrol(
    console: str,
    token: str,
    node: str,
    gpus: tuple[ClusterGpu, ...],
    tls: ssl.SSLContext | None = None,
) -> Credentials:
    """Asks `console` (http://, or https:// with `tls`). Raises NotEnrolled."""
    request = urllib.request.Request(  # noqa: S310  (the scheme is checked by the caller)
        f"{console.rstrip('/')}/api/v1/enrol/",
        data=json.dumps({"token": token, "node": node, "gpus": _inventory(gpus)}).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/json"},
    )
    try:
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=TIMEOUT_S, context=tls
        ) as response:
            return msgspec.json.decode(response.read(), type=Credentials)
    except urllib.error.HTTPError as error:
        raise NotEnrolled(f"the console refused: {_reason(error)}") from error
    except OSError as error:
        raise NotEnrolled(f"cannot reach {console}: {error}") from error
    except msgspec.DecodeError as error:
        raise NotEnrolled(f"{console} answered, but not as a MuxFlow console: {error}") from error


def keep(path: Path, fresh: Credentials) -> None:
    """Adds the credentials, or replaces those of the same node; only the owner can read them."""
    kept = credentials_file.decode(path.read_bytes()) if path.exists() else ()
    entries = (*(entry for entry in kept if entry.node != fresh.node), fresh)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(credentials_file.encode(entries))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def _inventory(gpus: tuple[ClusterGpu, ...]) -> list[dict[str, Any]]:
    return [
        {"index": index, "uuid": gpu.uuid, "model": gpu.model, "memory_bytes": gpu.memory_bytes}
        for index, gpu in enumerate(gpus)
    ]


def _reason(error: urllib.error.HTTPError) -> str:
    """The console's own sentence when it sent one."""
    try:
        answer = json.loads(error.read(65_536))
    except ValueError:
        answer = None
    detail = answer.get("detail") if isinstance(answer, dict) else None
    return str(detail) if detail else f"{error.code} {error.reason}"
