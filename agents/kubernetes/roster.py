"""The pods of this node, and whose a container is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.collectors.cgroups import Container
from agents.kubernetes.objects import Pod


@dataclass(frozen=True, slots=True)
class Roster:
    """`pods` by the UID that the API gives them."""

    pods: Mapping[str, Pod] = field(default_factory=dict)
    _by_cgroup: Mapping[str, Pod] = field(default_factory=dict)
    _by_container: Mapping[str, Pod] = field(default_factory=dict)

    def of(self, container: Container | None) -> Pod | None:
        """Whose it is. The pod's cgroup is the kubelet's word, so it goes first."""
        if container is None:
            return None
        if container.pod_uid:
            return self._by_cgroup.get(container.pod_uid)
        return self._by_container.get(container.container_id)

    def with_pod(self, pod: Pod) -> Roster:
        return roster((*self.pods.values(), pod))

    def without(self, uid: str) -> Roster:
        return roster(pod for pod in self.pods.values() if pod.uid != uid)


def roster(pods: Iterable[Pod]) -> Roster:
    """Of two pods with one UID the later is the newer."""
    by_uid = {pod.uid: pod for pod in pods}
    return Roster(
        by_uid,
        {pod.cgroup_uid: pod for pod in by_uid.values()},
        {each: pod for pod in by_uid.values() for each in pod.container_ids},
    )
