"""A stand-in for the Kubernetes API server, as far as pods are read from it.

It speaks HTTP/1.1 as the real one does: lists in pages of a consistent snapshot, watches as chunked
streams of one JSON event a line, bookmarks, `410 Gone` as an answer and as an event within a
stream, failures as Status objects. Shapes and rules follow the public documentation, "Kubernetes
API Concepts", and the API reference (v1 Pod, PodList, WatchEvent, Status). Anything but GET is
refused and remembered: whoever reads only never makes one.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]

PATH: Final = "/api/v1/pods"
# Two chunks for an event: whoever takes a chunk for a line must notice.
BREAK_AT: Final = 37
POLL_S: Final = 0.01
BOOKMARK: Final = "BOOKMARK"


def pod(name: str, uid: str, node: str = "node-01", **more: Any) -> Object:
    """As the API shows a running pod. `more`: `namespace`, `labels`, `annotations`, and
    `container_id` such as `containerd://` and 64 digits."""
    namespace = more.get("namespace", "default")
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": "",
            "creationTimestamp": "2026-05-04T09:12:11Z",
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            "managedFields": [{"manager": "kubelet", "operation": "Update"}],
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "server",
                    "image": "registry.example/server:7",
                    "env": [{"name": "API_KEY", "value": "not-for-agents"}],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "containerStatuses": [
                {
                    "name": "server",
                    "ready": True,
                    "restartCount": 0,
                    "containerID": more.get("container_id", ""),
                    "state": {"running": {"startedAt": "2026-05-04T09:12:15Z"}},
                }
            ],
        },
    }


def status(code: int, reason: str, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


@dataclass(frozen=True)
class Change:
    """A pod as it was and as it is, None where it was or is not, since `version`."""

    version: int
    before: Object | None
    after: Object | None


@dataclass
class Failure:
    """What the next requests get instead of an answer. `body` is sent as it is."""

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    watches_only: bool = False


class FakeKubernetes:
    """The cluster: its pods, its memory of changes, who is let in, what goes wrong next."""

    def __init__(self, tokens: tuple[str, ...] = ("token-1",)) -> None:
        self.tokens = set(tokens)
        self.may_list = True
        self.too_old_as_event = True
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.writes: list[str] = []
        self.watching = 0
        self._lock = threading.Condition()
        self._pods: dict[tuple[str, str], Object] = {}
        self._version = 1_000
        self._oldest = 0
        self._changes: list[Change] = []
        self._snapshots: dict[int, list[Object]] = {}
        self._failures: list[Failure] = []
        self._raw: list[tuple[bytes, str]] = []
        self._cut = 0

    # --- what happens in the cluster ----------------------------------------------------

    def put(self, given: Object) -> None:
        """Creates a pod, or replaces it."""
        key = (given["metadata"]["namespace"], given["metadata"]["name"])
        with self._lock:
            self._change(key, given)

    def delete(self, namespace: str, name: str) -> None:
        with self._lock:
            self._change((namespace, name), None)

    def pass_time(self, versions: int = 1) -> None:
        """Changes elsewhere in the cluster, which nobody here sees."""
        with self._lock:
            self._version += versions

    def compact(self) -> None:
        """Forgets all changes up to now, as etcd does after five minutes."""
        with self._lock:
            self._version += 1
            self._oldest = self._version
            self._changes.clear()
            self._snapshots.clear()

    def bookmark(self) -> None:
        """To all open watches; the server sends one about once a minute to those who ask."""
        with self._lock:
            thing = {"kind": "Pod", "apiVersion": "v1", "metadata": self._mark()}
            line = json.dumps({"type": BOOKMARK, "object": thing}).encode() + b"\n"
            self._raw.append((line, BOOKMARK))
            self._lock.notify_all()

    def say(self, line: bytes) -> None:
        """To all open watches, as it is."""
        with self._lock:
            self._raw.append((line, ""))
            self._lock.notify_all()

    def cut(self) -> None:
        """Breaks all open connections of watches, in the middle of whatever they are saying."""
        with self._lock:
            self._cut += 1
            self._lock.notify_all()

    def fail(
        self, code: int, body: Object | bytes = b"", *, headers: Mapping[str, str] | None = None,
        times: int = 1, watches_only: bool = False,
    ) -> None:  # fmt: skip
        """The next `times` requests fail."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._failures.append(Failure(code, data, headers or {}, times, watches_only))

    def _change(self, key: tuple[str, str], after: Object | None) -> None:
        self._version += 1
        before = self._pods.pop(key, None)
        if after is not None:
            after = json.loads(json.dumps(after))
            after["metadata"]["resourceVersion"] = str(self._version)
            self._pods[key] = after
        self._changes.append(Change(self._version, before, after))
        self._lock.notify_all()

    def _mark(self) -> Object:
        return {"resourceVersion": str(self._version), "creationTimestamp": None}

    # --- what is asked of it ------------------------------------------------------------

    def failure(self, query: Mapping[str, str]) -> Failure | None:
        with self._lock:
            for failure in self._failures:
                if failure.times and (not failure.watches_only or "watch" in query):
                    failure.times -= 1
                    return failure
        return None

    def page(self, query: Mapping[str, str]) -> tuple[int, Object]:
        with self._lock:
            if query.get("continue") and query.get("resourceVersion"):
                why = "specifying resource version is not allowed when using continue"
                return 400, status(400, "BadRequest", why)
            version, start = self._version, 0
            if query.get("continue"):
                told = json.loads(base64.urlsafe_b64decode(query["continue"]))
                version, start = told["rv"], told["start"]
                if version not in self._snapshots:
                    return 410, status(
                        410, "Expired", "The provided continue parameter is too old to display a"
                        " consistent list result. You can start a new list without it.",
                    )  # fmt: skip
            pods = self._snapshots.setdefault(version, list(self._pods.values()))
        chosen = [one for one in pods if matches(one, query)]
        # From its memory a server answers whole, whatever the limit.
        from_memory = query.get("resourceVersion") == "0"
        limit = (0 if from_memory else int(query.get("limit") or 0)) or len(chosen) or 1
        rest = len(chosen) - start - limit
        more = {"rv": version, "start": start + limit}
        metadata: Object = {"resourceVersion": str(version)}
        if rest > 0:
            metadata["continue"] = base64.urlsafe_b64encode(json.dumps(more).encode()).decode()
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = rest
        items = chosen[start : start + limit]
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}

    def is_too_old(self, query: Mapping[str, str]) -> bool:
        return int(query.get("resourceVersion") or 0) < self._oldest

    def too_old(self, query: Mapping[str, str]) -> Object:
        asked = query.get("resourceVersion")
        return status(410, "Expired", f"too old resource version: {asked} ({self._oldest})")

    def events(self, query: Mapping[str, str], patience_s: float) -> Generator[bytes | None]:
        """The lines of one watch from here on; None for a connection that breaks."""
        with self._lock:
            self.watching += 1
            return self._events(query, patience_s, len(self._raw), self._cut)

    def _events(
        self, query: Mapping[str, str], patience_s: float, heard: int, cut: int
    ) -> Generator[bytes | None]:
        ends, seen = time.monotonic() + patience_s, int(query["resourceVersion"])
        wanted = query.get("allowWatchBookmarks") == "true"
        try:
            while time.monotonic() < ends:
                with self._lock:
                    self._lock.wait(POLL_S)
                    changes = [one for one in self._changes if one.version > seen]
                    raw, broken = self._raw[heard:], self._cut > cut
                heard += len(raw)
                seen = max([seen, *(one.version for one in changes)])
                yield from (line for one in changes if (line := told(one, query)) is not None)
                yield from (line for line, kind in raw if kind != BOOKMARK or wanted)
                if broken:
                    yield None
                    return
        finally:
            with self._lock:
                self.watching -= 1


def told(change: Change, query: Mapping[str, str]) -> bytes | None:
    """What a watch with these selectors hears of a change: a pod that begins to match is new to
    it, one that matches no longer is gone."""
    was = change.before is not None and matches(change.before, query)
    is_now = change.after is not None and matches(change.after, query)
    if not was and not is_now:
        return None
    kind = "DELETED" if not is_now else "MODIFIED" if was else "ADDED"
    shown = change.after or change.before or {}
    shown = shown | {"metadata": shown["metadata"] | {"resourceVersion": str(change.version)}}
    return json.dumps({"type": kind, "object": shown}).encode() + b"\n"


def matches(one: Object, query: Mapping[str, str]) -> bool:
    labels = one["metadata"].get("labels") or {}
    fields = {
        "metadata.name": one["metadata"]["name"],
        "metadata.namespace": one["metadata"]["namespace"],
        "spec.nodeName": one["spec"]["nodeName"],
        "status.phase": one["status"]["phase"],
    }
    wanted = requirements(query.get("labelSelector", ""))
    return all(holds(labels) for holds in wanted) and all(
        holds(fields) for holds in requirements(query.get("fieldSelector", ""))
    )


def requirements(selector: str) -> list[Callable[[Mapping[str, str]], bool]]:
    """`a=b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, with commas between."""
    return [requirement(each.strip()) for each in re.split(r",(?![^(]*\))", selector) if each]


def requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", text):
        key, how, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        return lambda has: (has.get(key) in values) == (how == "in")
    if found := re.fullmatch(r"([^=!]+?)\s*(==?|!=)\s*([^=]*)", text):
        key, how, value = found.groups()
        return lambda has: (has.get(key) == value) == (how != "!=")
    if text.startswith("!"):
        return lambda has: text[1:] not in has
    return lambda has: text in has


class Server(ThreadingHTTPServer):
    daemon_threads = True
    cluster: FakeKubernetes


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        cluster = self.server.cluster
        cluster.requests.append((parts.path, query))
        failure = cluster.failure(query)
        if failure is not None:
            self._send(failure.code, failure.body, failure.headers)
        elif not self._is_let_in():
            self._tell(401, status(401, "Unauthorized", "Unauthorized"))
        elif not cluster.may_list:
            who = "system:serviceaccount:muxflow:muxflow-agent"
            what = f'pods is forbidden: User "{who}" cannot list resource "pods" in API group ""'
            self._tell(403, status(403, "Forbidden", f"{what} at the cluster scope"))
        elif parts.path != PATH:
            what = "the server could not find the requested resource"
            self._tell(404, status(404, "NotFound", what))
        elif query.get("watch") in ("1", "true"):
            self._watch(query)
        else:
            self._tell(*cluster.page(query))

    def _is_let_in(self) -> bool:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return kind == "Bearer" and token in self.server.cluster.tokens

    def _watch(self, query: Mapping[str, str]) -> None:
        cluster = self.server.cluster
        too_old = cluster.is_too_old(query)
        if too_old and not cluster.too_old_as_event:
            self._tell(410, cluster.too_old(query))
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        if too_old:
            self._chunks(json.dumps({"type": "ERROR", "object": cluster.too_old(query)}) + "\n")
            self._end()
            return
        with closing(cluster.events(query, float(query.get("timeoutSeconds", "1800")))) as lines:
            self._stream(lines)

    def _stream(self, lines: Iterator[bytes | None]) -> None:
        for line in lines:
            if line is None:
                self.close_connection = True
                self.wfile.write(b"40\r\n{")  # 64 bytes are announced, and one comes
                return
            self._chunks(line.decode(errors="surrogateescape"))
        self._end()

    def _chunks(self, text: str) -> None:
        data = text.encode(errors="surrogateescape")
        for part in (data[:BREAK_AT], data[BREAK_AT:]):
            if part:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _tell(self, code: int, content: Object) -> None:
        self._send(code, json.dumps(content).encode(), {})

    def _send(self, code: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self) -> None:
        self.server.cluster.writes.append(f"{self.command} {self.path}")
        self._tell(405, status(405, "MethodNotAllowed", "this server is for readers"))

    do_POST = do_PUT = do_PATCH = do_DELETE = _refuse

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving(cluster: FakeKubernetes, wrap: Callable[[Any], Any] | None = None) -> Iterator[str]:
    """Its address. `wrap` puts TLS around the listening socket."""
    server = Server(("127.0.0.1", 0), Handler)
    server.cluster = cluster
    if wrap is not None:
        server.socket = wrap(server.socket)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield f"{'http' if wrap is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        cluster.cut()
        server.shutdown()
        server.server_close()
        thread.join()
