from __future__ import annotations

from collections import Counter

import pytest

from agents.contention.cluster import build_cluster
from agents.contention.models import MODELS, model_of
from agents.wire import cluster as cluster_file

CLUSTER = build_cluster(16, 8, seed=7)
GPUS = {(node.name, at): gpu for node in CLUSTER.nodes for at, gpu in enumerate(node.gpus)}


def test_it_is_as_large_as_asked_for_and_has_four_pools():
    assert len(GPUS) == 128
    assert len({node.pool for node in CLUSTER.nodes}) == 4


def test_the_same_seed_gives_the_same_cluster_and_another_another():
    assert build_cluster(16, 8, seed=7) == CLUSTER
    assert build_cluster(16, 8, seed=8) != CLUSTER


def test_it_passes_through_its_file_unchanged():
    assert cluster_file.decode(cluster_file.encode(CLUSTER)) == CLUSTER


def test_names_and_uuids_are_unique():
    for names in (
        [gpu.uuid for gpu in GPUS.values()],
        [node.name for node in CLUSTER.nodes],
        [service.name for service in CLUSTER.services],
        [job.name for job in CLUSTER.jobs],
    ):
        assert len(set(names)) == len(names)


def test_most_gpus_serve_one_instance_of_their_pool_and_the_rest_is_free():
    pool_of = {node.name: node.pool for node in CLUSTER.nodes}
    placed: Counter[tuple[str, int]] = Counter()
    for service in CLUSTER.services:
        for instance in service.instances:
            assert pool_of[instance.node] == service.pool
            placed[instance.node, instance.gpu_index] += 1
    assert set(placed.values()) == {1}
    assert 0.8 <= len(placed) / len(GPUS) <= 0.9


def test_most_jobs_fit_beside_a_service_and_some_do_not():
    pairs = fits = 0
    for service in CLUSTER.services:
        instance = service.instances[0]
        free = 0.95 * GPUS[instance.node, instance.gpu_index].memory_bytes - service.memory_bytes
        pairs += len(CLUSTER.jobs)
        fits += sum(job.memory_bytes <= free for job in CLUSTER.jobs)
    assert 0.7 <= fits / pairs < 1.0


def test_a_service_alone_keeps_well_under_its_slo():
    for service in CLUSTER.services:
        assert service.base_p99_ms < 0.65 * service.slo_p99_ms


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (2, 4), (300, 8)])
def test_any_size_is_built(nodes, gpus):
    cluster = build_cluster(nodes, gpus, seed=1)
    assert sum(len(node.gpus) for node in cluster.nodes) == nodes * gpus


def test_a_large_cluster_splits_its_services():
    assert max(len(s.instances) for s in build_cluster(600, 8, seed=1).services) < 400


def test_an_unknown_model_is_taken_for_a_known_one():
    assert model_of("Quantum 9000") in MODELS.values()
