"""What every page shows around its content: navigation, counts, who is signed in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from console.accounts.access import role_name
from console.accounts.models import Role, User
from console.api import in_sight
from console.env import env_str
from console.evictions.models import Eviction

# URL name, words. The first row stands in the header, the second under More.
FIRST: Final = (
    ("overview", "Overview"),
    ("map", "Map"),
    ("evictions", "Evictions"),
    ("jobs", "Jobs"),
    ("services", "Services"),
    ("policies", "Policies"),
)
MORE: Final = (
    ("nodes", "Nodes"),
    ("rounds", "Rounds"),
    ("predictor", "Predictor"),
    ("audit", "Audit"),
    ("settings", "Settings"),
    ("api_docs", "API docs"),
)
# Pages that belong to a section but do not live under its address.
ALSO: Final = {"map": ("/gpus/",)}


class Link(NamedTuple):
    """One entry of the navigation; `here` when the page shown belongs to it."""

    name: str
    word: str
    url: str
    here: bool


class DemoPerson(NamedTuple):
    """Whom the demo lets one act as, and what that person may do."""

    role: Role
    may: str


DEMO_PERSONS: Final = (
    DemoPerson(Role.VIEWER, "sees everything"),
    DemoPerson(Role.APPROVER, "decides evictions"),
    DemoPerson(Role.ADMIN, "may do everything"),
)


class Shell:
    """The surroundings of one page. Everything is read on first use, so fragments cost nothing."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.demo = settings.MUXFLOW_DEMO

    @cached_property
    def first(self) -> list[Link]:
        return links(FIRST, self.request.path)

    @cached_property
    def more(self) -> list[Link]:
        return links(MORE, self.request.path)

    @cached_property
    def more_here(self) -> bool:
        return any(link.here for link in self.more)

    @cached_property
    def pending_evictions(self) -> int:
        """Of the pools that the person sees."""
        user, waiting = self.request.user, Eviction.objects.filter(state=Eviction.State.PROPOSED)
        return in_sight(waiting, user, "gpu__node__pool").count() if isinstance(user, User) else 0

    @cached_property
    def user_name(self) -> str:
        user = self.request.user
        return (isinstance(user, User) and user.get_full_name()) or user.get_username()

    @cached_property
    def role(self) -> str:
        """The word for the highest role that the person holds anywhere."""
        user = self.request.user
        return role_name(user) if isinstance(user, User) else ""

    @property
    def demo_without_xcuda(self) -> str:
        """Why the demo's real node runs without xCUDA, "" when it does not."""
        return env_str("MUXFLOW_DEMO_WITHOUT_XCUDA")

    @property
    def demo_persons(self) -> Sequence[DemoPerson]:
        return DEMO_PERSONS


def context(request: HttpRequest) -> dict[str, Any]:
    """Context processor: `shell`."""
    return {"shell": SimpleLazyObject(lambda: Shell(request))}


def links(entries: Sequence[tuple[str, str]], path: str) -> list[Link]:
    return [Link(name, word, reverse(name), is_here(name, path)) for name, word in entries]


def is_here(name: str, path: str) -> bool:
    home = reverse(name)
    if home == "/":
        return path == home
    return path.startswith((home, *ALSO.get(name, ())))
