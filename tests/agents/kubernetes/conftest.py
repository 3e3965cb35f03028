from __future__ import annotations

import time

import pytest

from agents.kubernetes.api import Access, Api
from agents.kubernetes.watch import PodWatch, Question
from agents.stub.kubernetes_api import FakeKubernetes, serving

NODE = "node-01"
LABEL = "app.kubernetes.io/name"


@pytest.fixture
def cluster():
    return FakeKubernetes()


@pytest.fixture
def url(cluster):
    with serving(cluster) as address:
        yield address


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("token-1\n")
    return path


@pytest.fixture
def api(url, token):
    asked = Api(lambda: Access(url, token))
    yield asked
    asked.close()


@pytest.fixture
def watching(url, token):
    """Makes watches that wait for a hundredth of what they should, and remember all waits."""
    made = []

    def start(selector=""):
        waits = []

        def wait_s(chosen):
            waits.append(chosen)
            return chosen.wait_s / 100

        api = Api(lambda: Access(url, token))
        watch = PodWatch(api, Question(NODE, selector, LABEL), wait_s)
        watch.waits = waits
        watch.start()
        made.append(watch)
        return watch

    yield start
    for each in made:
        each.close()


def until(holds, seconds=5.0):
    ends = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < ends, "it never came to be"
        time.sleep(0.005)
    return value


def names(watch):
    return {str(pod) for pod in watch.roster.pods.values()}
