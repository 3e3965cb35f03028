"""One line of the audit: who did what to which object, with a way there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.urls import NoReverseMatch, reverse

from console.audit.models import Entry

# Where an object of a type is shown: the page and how to name the object there.
_PAGES: Final[Mapping[str, tuple[str, Callable[[Entry], str]]]] = {
    "evictions.eviction": ("eviction", lambda entry: entry.object_id),
    "faults.fault": ("fault", lambda entry: entry.object_id),
    "inventory.gpu": ("gpu", lambda entry: entry.object_id),
    "inventory.node": ("node", lambda entry: entry.object_name),
    "workloads.offlinejob": ("job", lambda entry: entry.object_id),
    "scheduling.round": ("round", lambda entry: entry.object_id),
}


@dataclass(frozen=True)
class Row:
    """`step` is the change of state; `details` are the entry's other data, to be unfolded."""

    entry: Entry
    kind: str
    who: str
    did: str
    url: str
    step: str
    details: list[tuple[str, str]]


def rows(entries: Iterable[Entry]) -> list[Row]:
    return [row(entry) for entry in entries]


def row(entry: Entry) -> Row:
    kind, _, name = entry.actor.partition(":")
    person = entry.user and (entry.user.get_full_name() or entry.user.get_username())
    return Row(
        entry=entry,
        kind=kind,
        who=person or name,
        did=did(entry.action),
        url=url(entry),
        step=step(entry.data),
        details=details(entry.data),
    )


def did(action: str) -> str:
    """`eviction.run_by_default` as `eviction: run by default`."""
    subject, _, verb = action.partition(".")
    return f"{subject.replace('_', ' ')}: {verb.replace('_', ' ')}" if verb else subject


def url(entry: Entry) -> str:
    """Empty for what has no page of its own."""
    if entry.object_type not in _PAGES:
        return ""
    page, key = _PAGES[entry.object_type]
    try:
        return reverse(page, args=[key(entry)])
    except NoReverseMatch:  # a name that no address can hold
        return ""


def step(data: dict[str, Any]) -> str:
    """`proposed → approved`; empty where no state changed."""
    before, after = data.get("before"), data.get("after")
    return f"{before} → {after}".lower() if before and after else ""


def details(data: dict[str, Any]) -> list[tuple[str, str]]:
    """All but the change of state as text; lists of changes one by one."""
    found: list[tuple[str, str]] = []
    for key, value in data.items():
        if key == "changes" and isinstance(value, list):
            found += [(one["field"], f"{one['old']} → {one['new']}") for one in value]
        elif key not in ("before", "after"):
            found.append((key.replace("_", " "), str(value)))
    return found
