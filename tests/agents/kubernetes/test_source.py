"""From a pod of the API to the name of a process on a GPU."""

from __future__ import annotations

import pytest

from agents.collectors.attribution import OfflineJob, ProcessIdentity, Side
from agents.collectors.base import Unavailable
from agents.collectors.cgroups import Container
from agents.collectors.nvml import Nvml, SignalSource
from agents.collectors.processes import ProcessSource
from agents.collectors.real import RealCollector
from agents.config import Config
from agents.kubernetes import source
from agents.kubernetes.census import census
from agents.stub.kubernetes_api import pod
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal
from tests.agents.collectors.fake_nvml import UUID, FakeCard, FakeNvml, process
from tests.agents.kubernetes.conftest import LABEL, NODE, until

CHAT, BATCH = "2c48913c-b29f-11e7-9350-020968147796", "3d59024d-c3a0-22f8-a461-131a79258807"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
JOB = OfflineJob("job-1", 0, 40.0, pid=30, started_ticks=500)
CONTAINERS = {10: Container(CHAT), 11: Container(CHAT), 20: Container(BATCH), 30: Container(CHAT)}


def lookup(pid):
    if pid not in CONTAINERS and pid != 40:
        return None
    return ProcessIdentity(pid, 500, 1, pid, "python", "/", CONTAINERS.get(pid))


def config_of(url, token, **more):
    given = {"node": NODE, "kubernetes": url, "kubernetes_token": token}
    return Config(**given | more)


@pytest.fixture
def pods(cluster, url, token):
    cluster.put(pod("chat-0", CHAT, namespace="prod", labels={LABEL: "chat", "tier": "online"}))
    cluster.put(pod("batch", BATCH, namespace="lab", labels={"tier": "batch"}))
    made = source.source(config_of(url, token, kubernetes_selector="tier=online"))
    yield made
    made.close()


def test_a_process_is_named_by_its_pod_and_remembered_after_its_end(pods):
    card = FakeCard(**{COMPUTE: [process(pid) for pid in (10, 20, 30, 40, 50)]})
    seen = dict.fromkeys((10, 20, 30, 40))
    watched = ProcessSource(
        Nvml(FakeNvml(card)),
        lambda: [JOB],
        None,
        lambda pid: lookup(pid) if pid in seen else None,
        pods.workload,
    )
    pods.look(0.0)
    found = {one.pid: one for one in watched.look(0.0)[UUID].processes}
    assert found[10].workload == found[10].known_as == "prod/chat-0 of service chat"
    assert (found[20].side, found[20].workload) == (Side.ONLINE, "")
    assert (found[30].side, found[30].workload) == (Side.OFFLINE, "")
    assert (found[40].side, found[40].known_as) == (Side.ONLINE, "python")
    assert (found[50].side, found[50].known_as) == (Side.UNATTRIBUTED, "")
    del seen[10]
    again = {one.pid: one for one in watched.look(1.0)[UUID].processes}
    assert again[10].workload == "prod/chat-0 of service chat"


def test_an_api_that_is_gone_takes_neither_names_nor_values_with_it(cluster, pods):
    pods.look(0.0)
    until(lambda: cluster.watching == 1)
    cluster.may_list = False
    cluster.cut()
    until(lambda: "403" in pods._watch.trouble)
    nvml = Nvml(FakeNvml(FakeCard()))
    cards = nvml.cards()
    collector = RealCollector(cards, [[SignalSource(nvml)], [pods]], dict)
    collector.ask_others(1.0)
    until(lambda: collector.collect(1.0).looks[1].why != "not asked yet")
    reading = until(lambda: (it := collector.collect(1.0)).looks[0].success and it)
    assert reading.gpus[0].values[POSITIONS[Signal.GPU_UTIL]] == 85.0
    assert reading.looks[1].source == "kubernetes"
    assert not reading.looks[1].success
    assert "403" in reading.looks[1].why
    assert reading.looks[1].duration_s is not None
    assert pods.workload(Container(CHAT)) == "prod/chat-0 of service chat"
    collector.close()


def test_outside_of_a_pod_the_agent_runs_and_says_what_to_do():
    made = source.source(Config(node=NODE, kubernetes="in-cluster"), {})
    with pytest.raises(Unavailable, match="this is no pod"):
        made.look(0.0)
    made.close()


def test_a_source_that_was_never_asked_can_be_closed():
    source.source(Config(kubernetes="in-cluster"), {}).close()


@pytest.mark.parametrize(
    ("more", "node"), [({}, NODE), ({"kubernetes_node": "ip-10-0-0-7"}, "ip-10-0-0-7")]
)
def test_the_node_may_have_another_name_in_kubernetes(cluster, url, token, more, node):
    source.look_once(config_of(url, token, **more))
    assert cluster.requests[-1][1]["fieldSelector"] == f"spec.nodeName={node}"


def test_pods_are_counted_on_the_gpus_where_their_processes_are(cluster, url, token):
    cluster.put(pod("chat-0", CHAT, namespace="prod"))
    cluster.put(pod("idle", BATCH, namespace="prod"))
    roster = source.look_once(config_of(url, token))
    found = census(roster, {"GPU-0": [10, 11, 40], "GPU-1": [10], "GPU-2": []}, lookup)
    told = {uuid: {str(pod): pids for pod, pids in on.items()} for uuid, on in found.on.items()}
    assert told == {
        "GPU-0": {"prod/chat-0": (10, 11)},
        "GPU-1": {"prod/chat-0": (10,)},
        "GPU-2": {},
    }
    assert [str(one) for one in found.elsewhere] == ["prod/idle"]
