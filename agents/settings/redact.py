"""Text without the secrets that may be in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"

# `wss://user:password@host`, `Bearer abc`, `--api-key=abc`, `?token=abc`, `"password": "abc"`.
_PASSWORD_IN_URL: Final = re.compile(r"(\w+://)[^/@\s]+@")
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]+")
_NAME: Final = r"[\w-]*(?:token|password|passwd|secret|api[-_]?key|key_hex)[\w-]*"
_NAMED: Final = re.compile(rf"(?i)({_NAME}[\"']?\s*=\s*[\"']?)[^\s\"'&,;]+")
# A colon is prose ("does not know this token: enrol ...") unless the name is quoted or compound.
_AFTER_COLON: Final = re.compile(
    rf"(?i)((?:[\"']{_NAME}[\"']|(?=\w+[-_]\w){_NAME})\s*:\s*[\"']?)[^\s\"'&,;]+"
)


def redacted(text: str, known: Iterable[str] = ()) -> str:
    """`known` are secrets by their value: this node's token and key."""
    for secret in known:
        text = text.replace(secret, HIDDEN)
    text = _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    return _AFTER_COLON.sub(rf"\1{HIDDEN}", text)
