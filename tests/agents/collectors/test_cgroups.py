"""Paths as kubelets, runtimes and kernels write them.

Where the forms come from: the pod's part from the kubelet (kubernetes, pkg/kubelet/cm,
`GetPodCgroupNameSuffix` and `CgroupName.ToSystemd`), the container's from the runtime (containerd,
CRI plugin, `cri-containerd-ID.scope`; CRI-O, `crio-ID.scope`; cri-dockerd, `docker-ID.scope`), the
relative ones from cgroup_namespaces(7).
"""

from __future__ import annotations

import pytest

from agents.collectors import procfs
from agents.collectors.cgroups import Container, container

UID = "2c48913c-b29f-11e7-9350-020968147796"
SLICE = UID.replace("-", "_")
ID = "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
OTHER = "a55d9ac3b312d8a2627824b6d6dd8af66fbec439bf4e0ec22d6d9945ad337a38"
# The kubelet's hash of the file that a static pod is read from.
STATIC = "2732ca68f6358eba7703fb6f82a25c94"

BURSTABLE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice"
BOTH = Container(UID, ID)

PATHS = {
    "systemd, containerd, guaranteed": (
        f"/kubepods.slice/kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        BOTH,
    ),
    "systemd, containerd, burstable": (f"{BURSTABLE}/cri-containerd-{ID}.scope", BOTH),
    "systemd, CRI-O": (f"{BURSTABLE}/crio-{ID}.scope", BOTH),
    "systemd, CRI-O with crun's cgroup inside": (f"{BURSTABLE}/crio-{ID}.scope/container", BOTH),
    "systemd, cri-dockerd": (f"{BURSTABLE}/docker-{ID}.scope", BOTH),
    "systemd, podman's kube play": (f"{BURSTABLE}/libpod-{ID}.scope", BOTH),
    "cgroupfs, guaranteed": (f"/kubepods/pod{UID}/{ID}", BOTH),
    "cgroupfs, best effort": (f"/kubepods/besteffort/pod{UID}/{ID}", BOTH),
    "cgroupfs, CRI-O": (f"/kubepods/besteffort/pod{UID}/crio-{ID}", BOTH),
    "the kubelet on slices, containerd not": (
        f"/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{ID}",
        BOTH,
    ),
    "a node in a container (kind), systemd": (
        f"/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice"
        f"/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{SLICE}.slice"
        f"/cri-containerd-{ID}.scope",
        BOTH,
    ),
    "a node in a container (kind), cgroupfs": (
        f"/docker/{OTHER}/kubelet/kubepods/besteffort/pod{UID}/{ID}",
        BOTH,
    ),
    "an own root for the kubelet": (f"/gpu-pods/kubepods/burstable/pod{UID}/{ID}", BOTH),
    "seen from a cgroup namespace, systemd": (
        f"/../../kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        BOTH,
    ),
    "seen from a cgroup namespace, cgroupfs": (f"/../../../besteffort/pod{UID}/{ID}", BOTH),
    "a container of the reader's own pod": (f"/../crio-{ID}.scope", Container("", ID)),
    "a static pod, cgroupfs": (f"/kubepods/burstable/pod{STATIC}/{ID}", Container(STATIC, ID)),
    "a static pod, systemd": (
        f"/kubepods.slice/kubepods-pod{STATIC}.slice/crio-{ID}.scope",
        Container(STATIC, ID),
    ),
    "a kubelet without a cgroup for each pod": (f"/docker/{ID}", Container("", ID)),
    "the same on slices": (f"/system.slice/docker-{ID}.scope", Container("", ID)),
    "the pod itself": (f"/kubepods/pod{UID}", Container(UID)),
    "a pod within a pod": (
        f"/kubepods/pod{UID}/{ID}/kubepods/pod{UID.replace('2', '3')}/{OTHER}",
        BOTH,
    ),
    "a container that names its own cgroups": (
        f"{BURSTABLE}/cri-containerd-{ID}.scope/pod{UID.replace('2', '3')}",
        BOTH,
    ),
    "the root": ("/", None),
    "nothing": ("", None),
    "a session": ("/user.slice/user-1000.slice/session-3.scope", None),
    "a service": ("/system.slice/muxflow-agent.service", None),
    "kubepods alone": ("/kubepods.slice/kubepods-burstable.slice", None),
    "a conmon, which is no container": (f"{BURSTABLE}/crio-conmon-{ID[:20]}.scope", Container(UID)),
    "a UID cut short": (f"/kubepods/pod{UID[:-1]}/short", None),
    "a UID with both signs": (f"/kubepods/pod{UID.replace('-', '_', 1)}/x", None),
    "an id cut short": (f"/docker/{ID[:-1]}", None),
    "a name that only ends like one": (f"/not-a-tripod{UID}/x", None),
    "very long": ("/" + "a" * 4_000 + "-", None),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.values(), ids=PATHS)
def test_a_path_names_its_pod_and_container(path, expected):
    assert container([path]) == expected


def test_the_hierarchy_that_names_a_pod_is_the_one_that_counts():
    """A hybrid machine shows the runtime's own service in the new hierarchy, or less."""
    assert container(["/system.slice/containerd.service", f"/docker/{OTHER}", PATHS_OF_V1]) == BOTH
    assert container([f"/docker/{OTHER}", "/"]) == Container("", OTHER)
    assert container([]) is None


PATHS_OF_V1 = f"/kubepods/burstable/pod{UID}/{ID}"

V1 = f"""\
12:memory:{PATHS_OF_V1}
11:cpu,cpuacct:{PATHS_OF_V1}
1:name=systemd:{PATHS_OF_V1}
0::/system.slice/containerd.service
"""
V2 = f"0::{BURSTABLE}/cri-containerd-{ID}.scope\n"
STAT = "4711 (python (3) :) S 17 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 889 0 0"


@pytest.mark.parametrize(
    ("text", "cgroup"),
    [(V1, "/system.slice/containerd.service"), (V2, f"{BURSTABLE}/cri-containerd-{ID}.scope")],
    ids=["version 1", "version 2"],
)
def test_a_process_is_read_with_its_container(tmp_path, text, cgroup):
    directory = tmp_path / "4711"
    directory.mkdir()
    (directory / "stat").write_text(STAT)
    (directory / "cgroup").write_text(text)
    found = procfs.identity(4711, tmp_path)
    assert (found.name, found.cgroup, found.container) == ("python (3) :", cgroup, BOTH)
