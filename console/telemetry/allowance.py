"""How many messages a node may send: a token bucket. Pure, `now` in seconds of any clock."""

from __future__ import annotations


class Allowance:
    def __init__(self, per_s: float, burst: float, now: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._left, self._at = burst, now

    def takes(self, now: float) -> bool:
        """Whether one more message is within the allowance; it is used up by this."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
