from __future__ import annotations

import json

import pytest

from agents.collectors.cgroups import Container
from agents.kubernetes import objects
from agents.kubernetes.objects import Nonsense
from agents.kubernetes.roster import roster
from agents.stub.kubernetes_api import pod

LABEL = "app.kubernetes.io/name"
UID = "2c48913c-b29f-11e7-9350-020968147796"
OTHER = "3d59024d-c3a0-22f8-a461-131a79258807"
ID, SECOND = "a" * 64, "b" * 64
MARK = {"resourceVersion": "7"}
HASH = "2732ca68f6358eba7703fb6f82a25c94"


def read(given):
    return objects.pod(json.dumps(given).encode(), LABEL)


def test_a_pod_is_read_by_its_names_alone():
    given = pod(
        "chat-0", UID, namespace="prod", labels={LABEL: "chat"}, container_id=f"containerd://{ID}"
    )
    given["status"]["initContainerStatuses"] = [{"containerID": f"containerd://{SECOND}"}]
    found = read(given)
    assert (found.uid, found.cgroup_uid, found.node) == (UID, UID, "node-01")
    assert str(found) == "prod/chat-0 of service chat"
    assert found.container_ids == {ID, SECOND}
    assert "not-for-agents" not in repr(found)


@pytest.mark.parametrize("runtime", ["containerd", "cri-o", "docker", "cri-dockerd"])
def test_every_runtime_names_its_containers_alike(runtime):
    assert read(pod("a", UID, container_id=f"{runtime}://{ID}")).container_ids == {ID}


def test_a_pod_that_has_only_just_been_bound_has_no_containers_yet():
    given = pod("a", UID)
    given["status"] = {"phase": "Pending"}
    assert read(given).container_ids == frozenset()


def test_a_static_pod_is_found_by_the_hash_that_its_cgroup_has():
    mirror = pod("proxy", UID, annotations={"kubernetes.io/config.hash": HASH})
    assert read(mirror).cgroup_uid == HASH


def test_an_annotation_cannot_take_the_place_of_another_pod():
    liar = read(pod("liar", UID, annotations={"kubernetes.io/config.hash": OTHER}))
    honest = read(pod("honest", OTHER))
    known = roster([honest, liar])
    assert known.of(Container(OTHER)).name == "honest"
    assert known.of(Container(UID)).name == "liar"


HOSTILE = {
    "no name": {"name": ""},
    "capitals": {"name": "Chat"},
    "a path": {"name": "../chat"},
    "a colour": {"name": "a\x1b[31m"},
    "a line break": {"name": "a\nb"},
    "too long a name": {"name": "a" * 254},
    "no namespace": {"namespace": ""},
    "a namespace that is none": {"namespace": "prod.eu"},
    "too long a namespace": {"namespace": "a" * 64},
    "no UID": {"uid": ""},
    "a number": {"uid": 7},
    "labels in a list": {"labels": ["a"]},
    "a label that is a number": {"labels": {"a": 1}},
    "annotations in a text": {"annotations": "a"},
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=HOSTILE)
def test_what_the_api_would_not_have_taken_is_no_pod(part):
    given = pod("chat-0", UID)
    given["metadata"] |= part
    assert read(given) is None


@pytest.mark.parametrize(
    "part", [{"labels": None}, {"annotations": None}, {"ownerReferences": [{"deep": [[[]]]}]}]
)
def test_what_nobody_asked_for_may_be_anything(part):
    given = pod("chat-0", UID)
    given["metadata"] |= part
    assert str(read(given)) == "default/chat-0"


@pytest.mark.parametrize("value", ["", "chat room", "-chat", "a" * 64, "chat\x1b[2J"])
def test_a_label_that_is_none_names_no_service(value):
    assert str(read(pod("chat-0", UID, labels={LABEL: value}))) == "default/chat-0"


@pytest.mark.parametrize("told", ["", ID, f"containerd://{ID[:-1]}", f"://{ID}", "containerd://x"])
def test_a_container_id_that_is_none_names_no_container(told):
    assert read(pod("chat-0", UID, container_id=told)).container_ids == frozenset()


def test_a_page_of_too_many_is_refused():
    items = [0] * (objects.MOST_PODS + 1)
    data = json.dumps({"kind": "PodList", "metadata": MARK, "items": items}).encode()
    with pytest.raises(Nonsense, match="2001 pods"):
        objects.page(data, LABEL)


def test_what_is_no_pod_is_counted():
    content = {"kind": "PodList", "metadata": MARK, "items": [pod("a", UID), {}, 5, None]}
    page = objects.page(json.dumps(content).encode(), LABEL)
    assert ([str(one) for one in page.pods], page.skipped) == (["default/a"], 3)


def test_a_container_is_found_where_the_cgroup_names_no_pod():
    known = roster([read(pod("a", UID, container_id=f"docker://{ID}"))])
    assert known.of(Container("", ID)).name == "a"
    assert known.of(Container("", SECOND)) is None
    assert known.of(None) is None
    assert known.without(UID).of(Container("", ID)) is None
