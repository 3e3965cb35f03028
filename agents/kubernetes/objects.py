"""What is read of the Kubernetes API's answers, and nothing else of them. Pure.

Field names are those of the API (v1 Pod, PodList, WatchEvent, Status). Whatever is not named here
(the environment of a container, its image, its volumes) is skipped before it becomes a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

# More pods than any kubelet runs (its own default is 110) are no list of one node.
MOST_PODS: Final = 2_000

# RFC 1123, as the API server holds names to it: a pod's is a subdomain, a namespace's a label.
_NAME: Final = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_UID: Final = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,127}")
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_CONTAINER_ID: Final = re.compile(r"[a-z][-a-z0-9.]*://(?P<id>[0-9a-f]{64})")

T = TypeVar("T")


class Nonsense(ValueError):
    """An answer is not what the API answers; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod by its names. `uid` is the API's; `cgroup_uid` the one in its cgroup's name, another
    only for a static pod. `service` is the value of the service label, "" without one."""

    uid: str
    cgroup_uid: str
    namespace: str
    name: str
    node: str
    service: str = ""
    container_ids: frozenset[str] = frozenset()

    def __str__(self) -> str:
        whose = f" of service {self.service}" if self.service else ""
        return f"{self.namespace}/{self.name}{whose}"


class Annotations(msgspec.Struct, frozen=True):
    # The kubelet's own id of a static pod; what the API shows is a mirror with another UID.
    config_hash: str = msgspec.field(name="kubernetes.io/config.hash", default="")


class Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    labels: dict[str, str] | None = None
    annotations: Annotations | None = None


class Spec(msgspec.Struct, frozen=True):
    node_name: str = msgspec.field(name="nodeName", default="")


class ContainerStatus(msgspec.Struct, frozen=True):
    container_id: str = msgspec.field(name="containerID", default="")


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None


class PodObject(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: Spec = Spec()
    status: PodStatus = PodStatus()


class ListMetadata(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    more: str = msgspec.field(name="continue", default="")


class PodList(msgspec.Struct, frozen=True):
    kind: str
    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Marked(msgspec.Struct, frozen=True):
    """Any object, as far as its version."""

    metadata: Metadata


class Status(msgspec.Struct, frozen=True):
    """How the API tells of a failure."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its pods, the version that a watch goes on from, and where the next
    page begins ("": this was the last). `skipped` items were no pods."""

    pods: tuple[Pod, ...]
    version: str
    more: str
    skipped: int


def page(data: bytes, service_label: str) -> Page:
    """Raises Nonsense when it is no list of pods; a pod that is none is skipped."""
    told = _decoded(data, PodList)
    if told.kind != "PodList":
        raise Nonsense(f"a {told.kind[:40]!r} instead of a list of pods")
    if not told.metadata.resource_version:
        raise Nonsense("a list without a version, from which nothing can be watched")
    items = told.items or []
    if len(items) > MOST_PODS:
        raise Nonsense(f"{len(items)} pods on one page")
    pods = tuple(one for item in items if (one := pod(item, service_label)) is not None)
    return Page(pods, told.metadata.resource_version, told.metadata.more, len(items) - len(pods))


def event(line: bytes) -> WatchEvent:
    """Raises Nonsense."""
    return _decoded(line, WatchEvent)


def version(data: bytes | msgspec.Raw) -> str:
    """Of any object. Raises Nonsense."""
    return _decoded(data, Marked).metadata.resource_version


def status(data: bytes | msgspec.Raw) -> Status:
    """An empty one where the answer is none: proxies answer as they like."""
    try:
        return _decoded(data, Status)
    except Nonsense:
        return Status()


def pod(data: bytes | msgspec.Raw, service_label: str) -> Pod | None:
    """None when it is no pod, or a name in it is none that the API would have taken."""
    try:
        told = _decoded(data, PodObject)
    except Nonsense:
        return None
    of = told.metadata
    names = ((_UID, of.uid), (_NAMESPACE, of.namespace), (_NAME, of.name))
    if not all(allowed.fullmatch(name) for allowed, name in names):
        return None
    return Pod(
        of.uid,
        _cgroup_uid(of),
        of.namespace,
        of.name,
        told.spec.node_name,
        _service(of.labels or {}, service_label),
        _container_ids(told.status),
    )


def _cgroup_uid(of: Metadata) -> str:
    """Anybody may annotate a pod, so a hash never takes the form of another pod's UID."""
    told = of.annotations.config_hash if of.annotations else ""
    return told if _HASH.fullmatch(told) else of.uid


def _service(labels: Mapping[str, str], service_label: str) -> str:
    value = labels.get(service_label, "")
    return value if _LABEL.fullmatch(value) else ""


def _container_ids(of: PodStatus) -> frozenset[str]:
    """Such as `containerd://` and 64 digits; empty until the container has started."""
    lists: Sequence[Iterable[ContainerStatus] | None] = (
        of.container_statuses,
        of.init_container_statuses,
        of.ephemeral_container_statuses,
    )
    told = (one.container_id for each in lists for one in each or ())
    return frozenset(match["id"] for one in told if (match := _CONTAINER_ID.fullmatch(one)))


def _decoded(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Nonsense(str(error)[:200]) from error
