"""Text without the secrets that may be in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"

# `wss://user:password@host`, `Bearer abc`, `--api-key=abc`, `password: abc`, `?token=abc`.
_PASSWORD_IN_URL: Final = re.compile(r"(\w+://)[^/@\s]+@")
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]+")
_NAMED: Final = re.compile(
    r"(?i)([\w-]*(?:token|password|passwd|secret|api[-_]?key|key_hex)[\w-]*[\"']?\s*[=:]\s*[\"']?)"
    r"[^\s\"'&,;]+"
)


def redacted(text: str, known: Iterable[str] = ()) -> str:
    """`known` are secrets by their value: this node's token and key."""
    for secret in known:
        text = text.replace(secret, HIDDEN)
    text = _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _NAMED.sub(rf"\1{HIDDEN}", text)
