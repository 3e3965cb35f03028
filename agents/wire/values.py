"""What a value that an agent sends may be; a message with any other is refused whole.

The bounds keep out what no database column holds: NUL in a text, NaN and infinity, a number of
more than 63 bits. They say nothing of what is likely; `Event` bears any value, so that one event
never holds up those behind it.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from agents.wire.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS

_NO_NUL: Final = r"\A[^\0]*\Z"

Name: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_CHARS, pattern=_NO_NUL)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARS, pattern=_NO_NUL)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)]
Count: TypeAlias = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]
Bytes: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 50)]
