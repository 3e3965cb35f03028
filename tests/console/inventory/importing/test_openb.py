"""The openb traces: pods find GPUs by best fit, and what is left out has its reason."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from console.inventory.importing import openb
from console.inventory.importing.problems import Malformed
from tests.console.inventory.cast import NOW

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,64000,262144,4,G3\n"
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
)


def pod(name: str, gpus=1, milli=1000, spec="", qos="LS", phase="Running", ran="0,90,30") -> str:
    return f"{name},6000,12288,{gpus},{milli},{spec},{qos},{phase},{ran}\n"


def draft(folder: Path, *pods: str, nodes: str = NODES, seed: int = 1):
    (folder / openb.NODES).write_text(nodes)
    (folder / openb.PODS).write_text(HEADER + "".join(pods))
    return openb.draft(folder, seed, NOW)


def places(made) -> list[tuple[str, int, float]]:
    return sorted((i.gpu.node.name, i.gpu.index, i.gpu_percent) for i in made.instances)


def test_a_small_pod_goes_where_the_least_is_left_over(tmp_path):
    made = draft(tmp_path, pod("a", milli=600, spec="T4"), pod("b", milli=400))
    assert len({(node, index) for node, index, _ in places(made)}) == 1


def test_a_pod_that_names_models_gets_one_of_them(tmp_path):
    made = draft(tmp_path, *(pod(f"p{n}", spec="G3|A10") for n in range(4)))
    assert {node for node, _, _ in places(made)} == {"n-1"}


def test_a_pod_of_several_gpus_gets_them_on_one_node(tmp_path):
    made = draft(tmp_path, *(pod(f"p{n}") for n in range(2)), pod("big", gpus=4))
    assert [node for node, _, _ in places(made)].count("n-1") == 4


def test_no_gpu_is_given_away_twice(tmp_path):
    made = draft(tmp_path, *(pod(f"p{n}", milli=10 * (n % 60 + 1)) for n in range(200)))
    used: dict[tuple[str, int], float] = defaultdict(float)
    for node, index, share in places(made):
        used[node, index] += share
    assert max(used.values()) <= 100 + 1e-9
    assert made.skipped["LS pods that found no GPU with room: they occupy nothing"] > 0


def test_the_same_seed_gives_the_same_placement(tmp_path):
    pods = [pod(f"p{n}", milli=300) for n in range(8)]
    runs = [places(draft(tmp_path, *pods, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_pods_alike_are_instances_of_one_service(tmp_path):
    made = draft(tmp_path, pod("a", milli=200), pod("b", milli=200), pod("c", milli=300))
    assert [service.name for service in made.services] == [
        "ls-gpu200-cpu6000-mem12288",
        "ls-gpu300-cpu6000-mem12288",
    ]
    assert made.services[0].slo_p99_ms is None


def test_every_best_effort_pod_with_a_gpu_queues_whatever_became_of_it(tmp_path):
    phases = ("Running", "Failed", "Pending")
    made = draft(tmp_path, *(pod(f"p-{phase}", qos="BE", phase=phase) for phase in phases))
    assert [job.name for job in made.jobs] == ["p-Running", "p-Failed", "p-Pending"]
    assert not made.instances


def test_a_job_is_as_long_as_it_ran_and_else_as_the_middle_one(tmp_path):
    runs = ("0,90,30", "0,500,0", "0,130,30", "0,130,")
    made = draft(tmp_path, *(pod(f"p{n}", qos="BE", ran=ran) for n, ran in enumerate(runs)))
    assert [job.work_s for job in made.jobs] == [60, 500, 100, 100]


def test_what_is_left_out_is_counted_with_its_reason(tmp_path):
    made = draft(
        tmp_path,
        pod("a", gpus=0, milli=0),
        pod("b", gpus=0, milli=0, qos="BE"),
        pod("c", phase="Pending"),
        pod("d", qos="Burstable"),
        pod("e", qos="Guaranteed"),
        pod("f", qos="Guaranteed"),
    )
    assert dict(made.skipped) == {
        "LS pods that ask for no GPU": 1,
        "BE pods that ask for no GPU": 1,
        "LS pods that are Pending: they occupy nothing": 1,
        "pods of qos class Burstable: neither latency-sensitive nor best-effort": 1,
        "pods of qos class Guaranteed: neither latency-sensitive nor best-effort": 2,
    }


def test_the_memory_of_an_anonymous_model_is_marked_as_assumed(tmp_path):
    made = draft(tmp_path)
    assert {(gpu.model, gpu.memory_assumed) for gpu in made.gpus} == {("T4", False), ("G3", True)}


@pytest.mark.parametrize(
    ("nodes", "pods", "problem"),
    [
        (NODES + "n-2,1,1,8,H999\n", "", r"node_list_gpu_node.csv line 4: GPU model 'H999'"),
        (NODES + "n-2,1,1,65,T4\n", "", r"line 4: gpu is '65'; expected a whole number, 0 to 64"),
        (NODES, pod("a", milli=1001), r"pod_list_default.csv line 2: gpu_milli is '1001'"),
        (NODES, pod("a", milli="\uff11"), r"line 2: gpu_milli is"),
        (NODES, pod("a", milli=0), r"line 2: asks for a GPU, but for 0 of it"),
        (NODES, pod("=a"), r"line 2: '=a' is no name"),
        (NODES, pod("a", ran="0,-1,0"), r"line 2: deletion_time is '-1'"),
        (NODES, "a,1\n", r"line 2: expected 11 columns"),
        ("sn\n", "", r"line 1: the header lacks cpu_milli"),
    ],
)
def test_a_malformed_line_is_named_and_nothing_comes_of_the_rest(tmp_path, nodes, pods, problem):
    with pytest.raises(Malformed, match=problem):
        draft(tmp_path, pods, nodes=nodes)
