"""Which pod and container a cgroup path names. Pure.

The kubelet makes one cgroup a pod (`pod` and the UID; under its systemd driver a slice, with `_`
for each `-`), the container runtime one a container below it (the id, with the runtime's prefix
under systemd). Above it may stand anything: a QoS class, a node that is a container itself, or
`..` where the reader has a cgroup namespace of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# Paths of which it is remembered what they mean: the same few show every second.
REMEMBERED: Final = 1_024
# A UUID; the 32 digits of a hash for a static pod, which the kubelet reads from a file.
_UID: Final = (
    r"[0-9a-f]{8}(?P<dash>[-_])[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)"
    r"[0-9a-f]{12}|[0-9a-f]{32}"
)
_POD: Final = re.compile(rf"(?:.*-)?pod(?P<uid>{_UID})(?:\.slice)?")
_CONTAINER: Final = re.compile(r"(?:[a-z][a-z-]*-)?(?P<id>[0-9a-f]{64})(?:\.scope)?")


@dataclass(frozen=True, slots=True)
class Container:
    """Where a process runs; "" for what the path does not say. Not both are empty."""

    pod_uid: str = ""
    container_id: str = ""


def container(paths: Iterable[str]) -> Container | None:
    """The container of a process, by its paths in all hierarchies, the most telling one first;
    None when no path names any."""
    named = [found for path in paths if (found := _named(path)) is not None]
    return next((one for one in named if one.pod_uid), named[0] if named else None)


@lru_cache(REMEMBERED)
def _named(path: str) -> Container | None:
    """The outermost pod: what a container makes below its own cgroup, it may name as it likes.
    A runtime that is told of slices and does not know them leaves `slice:runtime:id` as a name."""
    segments = path.replace(":", "/").split("/")
    for place, segment in enumerate(segments):
        if pod := _POD.fullmatch(segment):
            return Container(pod["uid"].replace("_", "-"), _first_id(segments[place + 1 :]))
    found = _first_id(segments)
    return Container("", found) if found else None


def _first_id(segments: Iterable[str]) -> str:
    matches = (_CONTAINER.fullmatch(segment) for segment in segments)
    return next((match["id"] for match in matches if match), "")
