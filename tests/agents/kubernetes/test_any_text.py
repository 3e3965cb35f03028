"""Whatever an API or a kernel says, nothing fails on it in a way that nobody expects."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from agents.collectors.cgroups import container
from agents.kubernetes import objects
from agents.kubernetes.objects import Nonsense
from agents.stub.kubernetes_api import pod

ID = "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
UID = "2c48913c-b29f-11e7-9350-020968147796"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.text(max_size=5), deeper),
    max_leaves=8,
)
PLACES = [
    *(("metadata", key) for key in ("name", "namespace", "uid", "labels", "annotations")),
    *(("spec", "nodeName"), ("status", "containerStatuses"), ("metadata",), ("spec",)),
]
SEGMENTS = st.sampled_from(
    ["kubepods.slice", f"pod{UID}", f"cri-containerd-{ID}.scope", ID, "..", "", "docker", ":", "-"]
)


@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_an_answer_is_read_or_is_nonsense(data):
    for read in (lambda it: objects.page(it, "app"), objects.event, objects.version):
        with suppress(Nonsense):
            read(data)
    assert objects.status(data).code is not None
    assert objects.pod(data, "app") is None


@given(st.sampled_from(PLACES), JSON)
def test_a_pod_is_read_with_names_that_can_be_shown_or_not_at_all(place, value):
    given_pod = pod("chat-0", UID, labels={"app": "chat"})
    *above, last = place
    part = given_pod[above[0]] if above else given_pod
    part[last] = value
    found = objects.pod(json.dumps(given_pod).encode(), "app")
    assert found is None or str(found).isprintable()


@given(st.lists(SEGMENTS | st.text(max_size=12), max_size=8).map("/".join))
def test_a_path_names_something_or_nothing(path):
    found = container([path])
    assert found is None or found.pod_uid == UID or found.container_id in ("", ID)
