from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import pytest

from agents import preflight
from agents.__main__ import main
from agents.collectors.cgroups import Container
from agents.collectors.nvml import Nvml
from agents.mps import command, unit
from agents.mps.cards import NvmlCards
from agents.mps.shareable import Fact
from agents.stub import mps_control, mps_daemon
from agents.stub.kubernetes_api import FakeKubernetes, pod, serving
from agents.supervisor import start_ticks
from tests.agents.collectors.fake_nvml import (
    GIB,
    OTHER,
    UUID,
    Code,
    FakeCard,
    FakeNvml,
    memory_v2,
    process,
)

POD_UID = "2c48913c-b29f-11e7-9350-020968147796"


def cards(*fakes, dcgm=()):
    return NvmlCards(Nvml(FakeNvml(*fakes)), frozenset(dcgm))


def running(*pids):
    listed = [process(pid) for pid in pids]
    return {"nvmlDeviceGetComputeRunningProcesses_v3": listed}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Where the daemons of this node live; none runs yet."""
    program = str(mps_daemon.write_program(tmp_path))
    monkeypatch.setattr("agents.mps.unit.is_installed", lambda: False)
    yield SimpleNamespace(
        directory=tmp_path,
        words=["--mps-dir", str(tmp_path), "--program", program],
        look=preflight.look_once(tmp_path, (program,)),
    )
    for uuid in (UUID, OTHER):
        daemon = unit.find(unit.place_of(uuid, tmp_path))
        if daemon is not None:
            os.kill(daemon.pid, 9)


def facts(node, *fakes, **options):
    found = preflight.examine(cards(*fakes, **options), node.look)
    return [[verdict.fact for verdict in one.verdicts] for one in found]


def test_an_idle_gpu_lacks_only_its_daemon(node):
    (found,) = preflight.examine(cards(FakeCard()), node.look)
    assert [verdict.fact for verdict in found.verdicts] == [Fact.NO_DAEMON]
    assert found.words.startswith("shareable once it is enabled: no MPS control daemon")


@pytest.mark.parametrize(
    ("answers", "fact"),
    [
        ({"nvmlDeviceGetMigMode": [1, 1]}, Fact.MIG),
        ({"nvmlDeviceGetCudaComputeCapability": [6, 1]}, Fact.ARCHITECTURE),
        ({"nvmlDeviceGetComputeMode": 2}, Fact.COMPUTE_MODE),
        ({"nvmlDeviceGetComputeRunningProcesses_v3": Code(4)}, Fact.PROCESSES_UNKNOWN),
        ({"nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=0)}, Fact.SM_ACTIVITY),
        ({"nvmlDeviceGetMemoryInfo": memory_v2(80 * GIB, 76 * GIB, GIB)}, Fact.MEMORY_TAKEN),
        ({"nvmlDeviceGetMemoryInfo": Code(3)}, Fact.CARD),
        ({"nvmlDeviceGetCudaComputeCapability": Code(3)}, Fact.ARCHITECTURE),
        ({"nvmlDeviceGetComputeRunningProcesses_v3": Code(15)}, Fact.CARD),
        (running(os.getpid()), Fact.NOT_A_CLIENT),
    ],
)
def test_what_the_driver_tells_forbids(node, answers, fact):
    (told,) = facts(node, FakeCard(**answers))
    assert told[0] is fact


def test_one_bad_card_says_nothing_of_the_others(node):
    lost = FakeCard(nvmlDeviceGetComputeRunningProcesses_v3=Code(15))
    first, second = facts(node, lost, FakeCard(OTHER))
    assert first[0] is Fact.CARD
    assert second == [Fact.NO_DAEMON]


def test_two_cards_of_one_uuid_are_both_unfit(node):
    assert [told[0] for told in facts(node, FakeCard(), FakeCard())] == [Fact.CARD, Fact.CARD]


def test_dcgm_tells_what_an_older_card_does_not(node):
    ampere = FakeCard(nvmlGpmQueryDeviceSupport=SimpleNamespace(isSupportedDevice=0))
    assert facts(node, ampere, dcgm=[UUID]) == [[Fact.NO_DAEMON]]


def test_text_names_each_gpu_its_fact_and_the_way_out(node):
    found = preflight.examine(cards(FakeCard(nvmlDeviceGetMigMode=[1, 1])), node.look)
    text = preflight.as_text(found)
    assert f"GPU 0  NVIDIA H100 80GB HBM3  {UUID}\n  not shareable: MIG is on" in text
    assert "way out: switch it off with `nvidia-smi -mig 0`" in text
    assert "also: no MPS control daemon" in text


def test_json_says_the_same_for_programs(node):
    told = json.loads(preflight.as_json(preflight.examine(cards(FakeCard()), node.look)))
    (gpu,) = told["gpus"]
    assert gpu["uuid"] == UUID
    assert gpu["shareable"] is False
    assert gpu["forbidden_by"][0]["fact"] == "no_daemon"
    assert gpu["forbidden_by"][0]["mended_by_enabling"] is True
    assert [step["done"] for step in gpu["steps"]] == [True, False, False, False]


def test_preflight_changes_nothing(node):
    before = sorted(node.directory.rglob("*"))
    preflight.examine(cards(FakeCard()), node.look)
    assert sorted(node.directory.rglob("*")) == before


@pytest.mark.parametrize("json_too", [False, True])
def test_without_a_driver_it_says_so(node, json_too, capsys, monkeypatch):
    monkeypatch.setattr(preflight, "Nvml", lambda: Nvml(FakeNvml(init=12)))
    words = ["preflight", *node.words, *(["--json"] if json_too else [])]
    assert main(words) == 1
    told = capsys.readouterr()
    assert "install the NVIDIA driver" in (told.out if json_too else told.err)


def test_a_node_without_cards_says_so(node, capsys, monkeypatch):
    monkeypatch.setattr(preflight, "Nvml", lambda: Nvml(FakeNvml()))
    assert main(["preflight", *node.words]) == 1
    assert "knows of no GPU" in capsys.readouterr().err


# --- mps: status, enable, disable --------------------------------------------------------


@pytest.fixture
def mps(node, monkeypatch, capsys):
    """Runs `muxflow-agent mps` on a node with these cards."""

    def run(*words, on=None):
        monkeypatch.setattr(preflight, "node_cards", lambda _url: cards(*(on or [FakeCard()])))
        code = command.main([*words, *node.words])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def test_enabling_starts_the_daemon_and_tells_how_online_joins(mps, node):
    code, told = mps("enable", "--gpu", UUID)
    assert code == 0
    assert "[x] A control daemon of its own serves the GPU" in told
    assert f"CUDA_MPS_PIPE_DIRECTORY={node.directory}/{UUID}/pipe" in told
    assert unit.find(unit.place_of(UUID, node.directory)) is not None


def test_enabling_names_the_instance_that_must_restart_once(mps):
    with_online = [FakeCard(**running(os.getpid()))]
    assert f"(PID {os.getpid()})" in mps("enable", "--gpu", UUID, on=with_online)[1]
    told = mps("status", on=with_online)[1]
    assert "online instances must be restarted once" in told
    assert f"(PID {os.getpid()})" in told


def test_what_enabling_does_not_mend_is_not_enabled(mps, node):
    code, told = mps("enable", "--gpu", UUID, on=[FakeCard(nvmlDeviceGetMigMode=[1, 1])])
    assert code == 1
    assert "not enabled: MIG is on" in told
    assert unit.find(unit.place_of(UUID, node.directory)) is None


def test_disabling_ends_the_daemon_but_not_under_its_clients(mps, node, client):
    mps("enable", "--gpu", UUID)
    pipe = unit.place_of(UUID, node.directory).pipe_directory
    mps_control.ask(f"fake connect {client}", str(pipe))
    code, told = mps("disable", "--gpu", UUID)
    assert code == 1
    assert "1 online clients would die" in told
    assert mps("disable", "--gpu", UUID, "--approved")[0] == 0
    assert unit.find(unit.place_of(UUID, node.directory)) is None


def test_our_own_jobs_are_not_taken_for_online_clients(mps, node, client):
    mps("enable", "--gpu", UUID)
    pipe = unit.place_of(UUID, node.directory).pipe_directory
    mps_control.ask(f"fake connect {client}", str(pipe))
    placement = node.directory / "jobs" / "placement-1"
    placement.mkdir(parents=True)
    written = {"pid": client, "pid_ticks": start_ticks(client)}
    (placement / "started.json").write_text(json.dumps(written))
    where = ("--state-dir", str(node.directory))
    code, told = mps("disable", "--gpu", UUID, "--approved", *where)
    assert code == 1
    assert "offline jobs still run" in told
    (placement / "started.json").write_text("{")
    assert "1 online clients would die" in mps("disable", "--gpu", UUID, *where)[1]


@pytest.fixture
def client():
    """A process that can be a client and may end as one."""

    with subprocess.Popen(["sleep", "60"]) as sleeping:
        yield sleeping.pid
        sleeping.kill()


def test_a_gpu_that_is_not_here_and_one_that_is_not_named(mps):
    assert "preflight" in mps("enable", "--gpu", "GPU-elsewhere")[1]
    assert "say which GPU" in mps("enable")[1]


def test_the_unit_is_printed_without_any_gpu(mps):
    code, told = mps("unit", "--multiuser")
    assert code == 0
    assert "-f -multiuser-server" in told


# --- pods, where settings name a Kubernetes API ------------------------------------------


def test_it_says_which_pod_runs_on_which_gpu(node, capsys, monkeypatch, tmp_path):
    token = tmp_path / "token"
    token.write_text("token-1")
    cluster = FakeKubernetes()
    cluster.put(pod("chat-0", POD_UID, "n", namespace="prod", labels={"app": "chat"}))
    cluster.put(pod("idle", "u-2", "n", namespace="prod"))
    nvml = FakeNvml(FakeCard(**running(os.getpid())), FakeCard(OTHER))
    monkeypatch.setattr(preflight, "Nvml", lambda: Nvml(nvml))
    monkeypatch.setattr("agents.collectors.procfs.cgroups.container", lambda _: Container(POD_UID))
    with serving(cluster) as url:
        words = ["--kubernetes", url, "--kubernetes-token", str(token), "--node", "n"]
        words += ["--kubernetes-service-label", "app", *node.words]
        assert main(["preflight", *words]) == 0
        told = capsys.readouterr().out
        assert main(["preflight", "--json", *words]) == 0
        shown = json.loads(capsys.readouterr().out)
        cluster.may_list = False
        assert main(["preflight", *words]) == 0
        without = capsys.readouterr().out
    first, second = told.split("GPU 1")
    assert f"pod prod/chat-0 of service chat: PID {os.getpid()}" in first
    assert "chat-0" not in second
    assert "pods without a process on a GPU: prod/idle" in second
    assert shown["gpus"][0]["pods"][0]["name"] == "chat-0"
    assert [one["name"] for one in shown["pods_without_a_gpu"]] == ["idle"]
    assert "pods: the Kubernetes API answers 403" in without
    assert cluster.writes == []


def test_settings_that_this_user_may_not_read_hide_no_gpu(node, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(preflight, "Nvml", lambda: Nvml(FakeNvml(FakeCard())))
    absent = str(tmp_path / "absent.toml")
    assert main(["preflight", "--config", absent, *node.words]) == 0
    told = capsys.readouterr().out
    assert UUID in told
    assert f"pods: cannot read {absent}" in told
