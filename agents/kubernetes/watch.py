"""Keeps the roster of this node's pods: a list, then a watch, on a thread of its own.

What is known stays known while the API cannot be reached: a pod's UID is never used again, so an
old roster names nothing wrongly.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agents.collectors.base import Unavailable
from agents.complaints import Complaints
from agents.kubernetes import objects, pace
from agents.kubernetes.api import Api, Refused, Stream, refusal
from agents.kubernetes.objects import MOST_PODS, Nonsense, Pod
from agents.kubernetes.pace import Ending, Next
from agents.kubernetes.roster import Roster, roster

log = logging.getLogger(__name__)

PATH: Final = "/api/v1/pods"
PAGE_PODS: Final = 250
MOST_PAGES: Final = 100
# Any version will do: the server answers from its memory, which knows the pods of a node, and not
# from etcd, through the pods of the whole cluster. A watch soon brings what that lacks.
CACHED: Final = "0"
NEWEST: Final = ""
GONE: Final = 410
# How long the server may keep a watch open: drawn between this and twice this, as its own
# clients do. Each begins anew with a fresh token and, maybe, another API server.
WATCH_S: Final = 240
# What the server may be late with the end that it was told of.
LATE_S: Final = 15.0
# A watch that ended sooner than this did not work as it should.
LASTED_S: Final = 5.0
CLOSE_S: Final = 2.0


class TooOld(Unavailable):
    """The API does not remember that far back."""


@dataclass(frozen=True, slots=True)
class Question:
    """Whose pods: those of this node with these labels (all when it is ""). `service_label` is
    the key of the label that names a pod's service."""

    node: str
    selector: str = ""
    service_label: str = ""

    def query(self) -> dict[str, str]:
        asked = {"fieldSelector": f"spec.nodeName={self.node}"}
        return asked | ({"labelSelector": self.selector} if self.selector else {})


def listed(api: Api, question: Question, version: str = CACHED) -> tuple[Roster, str]:
    """All pods, page by page, and the version that a watch goes on from; not older than `version`.
    Raises TooOld, Unavailable, Nonsense."""
    pods: list[Pod] = []
    query = question.query() | {"limit": str(PAGE_PODS), "resourceVersion": version}
    for _ in range(MOST_PAGES):
        page = objects.page(_got(api, query), question.service_label)
        if page.skipped:
            log.warning("the Kubernetes API lists %d things that are no pods", page.skipped)
        pods += page.pods
        if len(pods) > MOST_PODS:
            break
        if not page.more:
            return roster(pod for pod in pods if pod.node == question.node), page.version
        query["continue"] = page.more
        query.pop("resourceVersion", None)  # the token names it
    raise Nonsense(f"more than {MOST_PODS} pods on one node: does the list know its own end?")


def _got(api: Api, query: dict[str, str]) -> bytes:
    try:
        return api.get(PATH, query)
    except Refused as error:
        raise _too_old(error) from error


def _too_old(error: Refused) -> Unavailable:
    return TooOld(str(error)) if error.code == GONE else error


class PodWatch:
    """The roster as last heard, and why it does not go on ("" while it does)."""

    def __init__(
        self, api: Api, question: Question, wait_s: Callable[[Next], float] = lambda it: it.wait_s
    ) -> None:
        """`wait_s`: how long a wait really takes."""
        self._api, self._question, self._wait_s = api, question, wait_s
        self.roster = Roster()
        self.trouble = ""
        # Set while there is nothing to wait for: a list is done, or has failed.
        self.settled = threading.Event()
        self._version = ""
        self._wanted = CACHED
        self._failures = 0
        self._closed = threading.Event()
        self._complaints = Complaints()
        self._thread = threading.Thread(target=self._run, name="kubernetes watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._api.close()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._closed.is_set():
            retry_after_s = None
            try:
                ending = self._go_on()
            except TooOld as error:
                ending = self._failed(Ending.TOO_OLD, error)
            except Refused as error:
                ending, retry_after_s = self._failed(Ending.REFUSED, error), error.retry_after_s
            except Unavailable as error:
                ending = self._failed(Ending.BROKEN, error)
            except Exception as error:
                ending = self._failed(Ending.NONSENSE, error)
            chosen = pace.after(ending, self._failures, random.random(), retry_after_s)
            self._failures = chosen.failures
            if chosen.anew:
                self._version = ""
                # What its memory gave last time was older than what it can watch from.
                self._wanted = NEWEST if ending is Ending.TOO_OLD else CACHED
            self._closed.wait(self._wait_s(chosen))

    def _failed(self, ending: Ending, error: Exception) -> Ending:
        """A version that is too old is an ordinary thing, once."""
        why = str(error) or type(error).__name__
        if ending is not Ending.TOO_OLD or self._failures:
            self.trouble = why
            self.settled.set()
        if not self._closed.is_set() and self._complaints.due(why):
            log.warning("the pods of this node: %s", why)
        return ending

    def _go_on(self) -> Ending:
        if not self._version:
            self.settled.clear()
            self.roster, self._version = listed(self._api, self._question, self._wanted)
            self._wanted = CACHED
        return self._watch()

    def _watch(self) -> Ending:
        began = time.monotonic()
        for line in self._opened():
            self._take(line)
            self._failures = 0
        lasted = time.monotonic() - began >= LASTED_S
        return Ending.CLOSED if lasted else Ending.TOO_SOON

    def _opened(self) -> Stream:
        seconds = random.randint(WATCH_S, 2 * WATCH_S)
        query = self._question.query() | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        try:
            stream = self._api.watch(PATH, query, seconds + LATE_S)
        except Refused as error:
            raise _too_old(error) from error
        self.trouble = ""
        self.settled.set()
        return stream

    def _take(self, line: bytes) -> None:
        """One event. Raises TooOld, Refused, Nonsense."""
        event = objects.event(line)
        if event.type == "ERROR":
            told = objects.status(event.object)
            raise _too_old(Refused(refusal(told.code, told.message), told.code))
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            self._change(event.type, objects.pod(event.object, self._question.service_label))
        # Of a bookmark, and of a kind of event that is not known yet, the version is all there is.
        self._version = objects.version(event.object) or self._version

    def _change(self, kind: str, pod: Pod | None) -> None:
        if pod is None:
            if self._complaints.due("no pod"):
                log.warning("the Kubernetes API tells of a change to something that is no pod")
        elif kind == "DELETED" or pod.node != self._question.node:
            self.roster = self.roster.without(pod.uid)
        elif pod.uid not in self.roster.pods and len(self.roster.pods) >= MOST_PODS:
            raise Nonsense(f"more than {MOST_PODS} pods on one node")
        else:
            self.roster = self.roster.with_pod(pod)
