"""A cluster file is read whole, or every line that is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agents.wire import cluster as wire
from console.errors import Invalid
from console.inventory.importing import documents
from console.inventory.importing.problems import MAX_LISTED, Malformed

GIB = 1 << 30
PROFILE = {
    "sm_percent": 20,
    "gpu_util_percent": 40,
    "memory_bytes": 4 * GIB,
    "memory_bandwidth_percent": 10,
}


def a_cluster(**changes) -> dict:
    return {
        "name": "small",
        "nodes": [a_node("node-01"), a_node("node-02")],
        "services": [a_service()],
        "jobs": [{"name": "train", "team": "research", "work_s": 3600, **PROFILE}],
        **changes,
    }


def a_node(name: str, **changes) -> dict:
    gpu = {"uuid": f"GPU-{name}", "model": "A100", "memory_bytes": 40 * GIB}
    return {"name": name, "pool": "web", "gpus": [gpu], **changes}


def a_service(**changes) -> dict:
    return {
        "name": "rank",
        "team": "search",
        "pool": "web",
        "tier": 1,
        "slo_p99_ms": 50,
        "peak_qps": 100,
        "base_p99_ms": 20,
        "instances": [{"node": "node-01", "gpu_index": 0}],
        **PROFILE,
        **changes,
    }


def read(document: dict) -> wire.Cluster:
    return documents.read_document(json.dumps(document, indent=1).encode(), "cluster.json")


def problems_of(document: dict) -> list[str]:
    with pytest.raises(Malformed) as caught:
        read(document)
    return [str(problem) for problem in caught.value.problems]


def test_json_and_yaml_of_one_cluster_are_the_same_cluster():
    text = yaml.safe_dump(a_cluster())
    assert read(a_cluster()) == documents.read_document(text.encode(), "cluster.yaml")


def test_what_the_agents_write_is_read():
    cluster = read(a_cluster())
    assert documents.read_document(wire.encode(cluster), "cluster.json") == cluster


def test_a_wrong_row_is_named_with_its_line():
    document = a_cluster(nodes=[a_node("node-01"), a_node("node-02", gpus="eight")])
    (problem,) = problems_of(document)
    line = json.dumps(document, indent=1).splitlines().index('   "name": "node-02",')
    assert problem.startswith(f"cluster.json line {line}: Expected `array`, got `str`")


def test_all_wrong_rows_are_named_at_once():
    jobs = [{"name": f"job {n}", "team": "research", "work_s": 1, **PROFILE} for n in range(30)]
    assert len(problems_of(a_cluster(jobs=jobs))) == 30
    with pytest.raises(Malformed, match=f"… {30 - MAX_LISTED} more"):
        read(a_cluster(jobs=jobs))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"nodes": [a_node("n"), a_node("n")]}, "the name n occurs 2 times"),
        ({"nodes": [a_node("=cmd()")], "services": []}, "is no name"),
        ({"nodes": [a_node("n\u202e")], "services": []}, "is no name"),
        ({"nodes": [a_node("n", pool="a b")], "services": []}, "pool 'a b'"),
        ({"nodes": [a_node("n", gpus=a_node("n")["gpus"] * 2)], "services": []}, "occurs 2 times"),
        ({"nodes": [a_node("n", gpus=[{"uuid": "u", "model": "A", "memory_bytes": -1}])]}, "-1"),
        ({"services": [a_service(instances=[{"node": "node-01", "gpu_index": 9}])]}, "node-01/9"),
        ({"services": [a_service(sm_percent=101)]}, "sm_percent must be 0 to 100"),
        ({"services": [a_service(memory_bytes=41 * GIB)]}, "is more than node-01/0 has"),
        ({"services": [a_service(slo_p99_ms=0)]}, "slo_p99_ms must be above 0"),
        ({"jobs": [{"name": "j", "team": "t", "work_s": 0, **PROFILE}]}, "work_s must be above 0"),
        ({"jobs": [{"name": "j", "team": "t", **PROFILE}]}, "missing required field `work_s`"),
        ({"jobs": [{"name": "j", "team": "t", "work_s": 1e999, **PROFILE}]}, "work_s"),
        ({"jobs": ["text"]}, "Expected `object`"),
        ({"pools": []}, "unknown parts: pools"),
        ({"jobs": {"a": 1}}, "must be lists"),
    ],
)
def test_what_contradicts_itself_is_refused(changes, sentence):
    assert any(sentence in problem for problem in problems_of(a_cluster(**changes)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"nodes: [",
        b"\xff\xfe",
        b"nodes:\0",
        b"[" * 100_000,
        b"a: &a [1]\nnodes: *a",
        b"nodes: !!python/object/apply:os.system ['true']",
        b"{1: 2}",
    ],
)
def test_hostile_bytes_are_a_sentence_and_no_crash(data):
    with pytest.raises(Malformed, match="nothing was imported"):
        documents.read_document(data, "cluster.yaml")


def test_a_missing_file_is_a_sentence(tmp_path: Path):
    with pytest.raises(Invalid, match="cannot be read"):
        documents.read(tmp_path / "none.json")


NODES = "name,pool,gpu_count,gpu_model,gpu_memory_gib,rack\nnode-01,web,2,A100,40,r1\n"
SERVICES = (
    "name,team,pool,tier,slo_p99_ms,peak_qps,base_p99_ms,sm_percent,gpu_util_percent,"
    "memory_gib,memory_bandwidth_percent,instances\n"
    "rank,search,web,1,50,100,20,20,40,4,10,node-01/0 node-01/1\n"
)
JOBS = (
    "name,team,work_s,sm_percent,gpu_util_percent,memory_gib,memory_bandwidth_percent,priority,"
    "gpu_models\ntrain,research,3600,50,80,8,30,5,A100 T4\n"
)


def folder(path: Path, **tables: str) -> Path:
    for name, text in {"nodes": NODES, "services": SERVICES, "jobs": JOBS, **tables}.items():
        (path / f"{name}.csv").write_text(text)
    return path


def test_a_csv_folder_may_tell_what_nodes_have_and_jobs_need(tmp_path: Path):
    nodes = "name,pool,gpu_count,gpu_model,gpu_memory_gib,cpu_cores,host_memory_gib\n"
    jobs = "name,team,work_s,sm_percent,gpu_util_percent,memory_gib,memory_bandwidth_percent,"
    folder = {
        "nodes.csv": nodes + "node-01,web,1,A10,24,64,\n",
        "jobs.csv": jobs + "gpus,cpu_cores,host_memory_gib,labels,image\n"
        "j-1,research,60,50,80,8,30,2,4,16,rack=r1 a=b,img:1\n",
    }
    for name, text in folder.items():
        (tmp_path / name).write_text(text)
    cluster = documents.read(tmp_path)
    (node,), (job,) = cluster.nodes, cluster.jobs
    assert (node.cpu_cores, node.host_memory_bytes) == (64, None)
    assert (job.gpus, job.cpu_cores, job.host_memory_bytes) == (2, 4, 16 << 30)
    assert (job.labels, job.image) == (("rack=r1", "a=b"), "img:1")


def test_a_csv_folder_is_a_cluster(tmp_path: Path):
    cluster = documents.read(folder(tmp_path))
    assert [gpu.uuid for gpu in cluster.nodes[0].gpus] == [
        "imported:node-01:0",
        "imported:node-01:1",
    ]
    assert [i.gpu_index for i in cluster.services[0].instances] == [0, 1]
    assert (cluster.jobs[0].priority, cluster.jobs[0].gpu_models) == (5, ("A100", "T4"))


@pytest.mark.parametrize(
    ("table", "text", "problem"),
    [
        ("nodes", NODES + "node-02,web,x,A100,40,r1\n", "nodes.csv line 3: gpu_count 'x'"),
        ("nodes", NODES + "node-02,web,1,A100\n", "nodes.csv line 3: expected 6 columns"),
        ("nodes", NODES + "node-02,web,1,A100,40,r1,more\n", "line 3: expected 6 columns"),
        ("nodes", NODES + "node-02,web,1,A100,nan,r1\n", "line 3: 'nan' is no number of GiB"),
        ("nodes", NODES + 'node-02,web,1,"A100\n', "line 3: unexpected end of data"),
        ("nodes", NODES + "node-01,web,1,A100,40,r1\n", "line 2: the name node-01 occurs 2 times"),
        ("nodes", "name,pool\n", "line 1: the header lacks gpu_count"),
        ("nodes", NODES.replace("rack", "shelf"), "line 1: the header has unknown shelf"),
        ("nodes", "", "line 1: the header lacks name"),
        ("services", SERVICES.replace("node-01/1", "node-01"), "services.csv line 2: Expected"),
        ("jobs", JOBS.replace("3600", "=1+1"), "jobs.csv line 2: Expected `float`"),
    ],
)
def test_a_hostile_table_is_refused_with_its_line(tmp_path, table, text, problem):
    with pytest.raises(Malformed) as caught:
        documents.read(folder(tmp_path, **{table: text}))
    assert any(problem in str(found) for found in caught.value.problems)


def test_a_field_without_end_is_refused(tmp_path):
    with pytest.raises(Malformed, match=r"jobs.csv line 3: field larger than field limit"):
        documents.read(folder(tmp_path, jobs=JOBS + "x" * 200_000 + "\n"))
