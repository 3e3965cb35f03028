"""Launches of graphs: charged by their kernels, their memory by its allocation nodes."""

from __future__ import annotations

import pytest

from agents.control_block import Kind

# `nodes` are (function, blocks); `graph(...)` makes a graph of them, `node_params(blocks)` the
# CUDA_KERNEL_NODE_PARAMS_v2 of one.
GRAPHS = """
cuda.start()
def node_params(blocks):
    return (c_uint64 * 9)(0, 1 << 32 | blocks, 32 << 32 | 1, 1 << 32 | 1, 0, 0, 0, 0, 0)
def graph(*blocks):
    made = cuda.make("cuGraphCreate", 0)
    made_nodes = [
        cuda.make("cuGraphAddKernelNode_v2", made, None, 0, node_params(each)) for each in blocks
    ]
    return made, made_nodes
def allocation(made, size):
    wanted = (c_uint64 * 15)(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    wanted[0] = 1  # pinned
    wanted[1] = 1  # on a device, whose number is 0
    wanted[ALLOC_BYTES] = size
    return cuda.make("cuGraphAddMemAllocNode", made, None, 0, wanted)
"""
# Of CUDA_MEM_ALLOC_NODE_PARAMS: behind the 88 bytes of the pool's properties and two words.
GRAPHS = GRAPHS.replace("ALLOC_BYTES", str((88 + 16) // 8))

INSTANTIATE = {
    "cuGraphInstantiate": "made, None, None, 0",
    "cuGraphInstantiate_v2": "made, None, None, 0",
    "cuGraphInstantiateWithFlags": "made, 0",
    "cuGraphInstantiateWithParams": "made, (c_uint64 * 4)()",
    "cuGraphInstantiateWithParams_ptsz": "made, (c_uint64 * 4)()",
}


def run(xcuda, code, **how):
    return xcuda.python(GRAPHS + code, **how)


@pytest.mark.parametrize("name", INSTANTIATE)
def test_a_graph_is_charged_by_its_kernels_however_it_is_made(xcuda, make_block, name):
    block = make_block()
    run(
        xcuda,
        f"""
made, _ = graph(5, 6, 7)
run = cuda.make({name!r}, {INSTANTIATE[name]})
for launch in ("cuGraphLaunch", "cuGraphLaunch_ptsz"):
    cuda.ok(launch, run, 0)
cuda.ok("cuCtxSynchronize")
tell()
""",
        block=block,
    )
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (6, 36)


def test_graphs_in_graphs_count_too(xcuda, make_block, server):
    block = make_block()
    run(
        xcuda,
        """
inner, _ = graph(10, 10)
middle, _ = graph(1)
cuda.make("cuGraphAddChildGraphNode", middle, None, 0, inner)
outer, _ = graph(100)
for _ in range(2):
    cuda.make("cuGraphAddChildGraphNode", outer, None, 0, middle)
run = cuda.make("cuGraphInstantiateWithFlags", outer, 0)
cuda.ok("cuGraphLaunch", run, 0)
cuda.ok("cuCtxSynchronize")
tell()
""",
        block=block,
        server=server,
    )
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (7, 142)


@pytest.mark.parametrize("name", ["cuGraphExecKernelNodeSetParams_v2", "cuGraphExecNodeSetParams"])
def test_a_kernel_that_is_changed_is_charged_as_it_is_now(xcuda, make_block, name):
    block = make_block()
    run(
        xcuda,
        f"""
made, (first, second) = graph(5, 6)
run = cuda.make("cuGraphInstantiateWithFlags", made, 0)
wanted = node_params(100)
if {name!r} == "cuGraphExecNodeSetParams":
    wanted = (c_uint64 * 32)(0, 0, *wanted)
cuda.ok({name!r}, run, second, wanted)
cuda.ok({name!r}, run, second, wanted)
cuda.ok("cuGraphLaunch", run, 0)
cuda.ok("cuCtxSynchronize")
tell()
""",
        block=block,
    )
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (2, 105)


def test_an_updated_graph_is_charged_as_it_is_now(xcuda, make_block):
    block = make_block()
    run(
        xcuda,
        """
made, nodes = graph(5, 6)
run = cuda.make("cuGraphInstantiateWithFlags", made, 0)
other, _ = graph(50, 60)
cuda.ok("cuGraphExecUpdate_v2", run, other, (c_uint64 * 3)())
cuda.ok("cuGraphLaunch", run, 0)
cuda.ok("cuGraphExecKernelNodeSetParams_v2", run, nodes[0], node_params(1))
cuda.ok("cuGraphLaunch", run, 0)
cuda.ok("cuCtxSynchronize")
tell()
""",
        block=block,
    )
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (4, 110 + 61)


def test_a_graph_without_kernels_counts_as_one_launch(xcuda, make_block):
    block = make_block()
    run(
        xcuda,
        """
made = cuda.make("cuGraphCreate", 0)
cuda.make("cuGraphAddEmptyNode", made, None, 0)
cuda.ok("cuGraphLaunch", cuda.make("cuGraphInstantiateWithFlags", made, 0), 0)
tell()
""",
        block=block,
    )
    assert block.read_slots()[0].launches == 1


def test_the_memory_of_a_graph_is_charged_while_it_can_run(xcuda, make_block):
    block = make_block(memory_quota_bytes=64 << 20)
    told = run(
        xcuda,
        """
made, _ = graph(1)
allocation(made, 40 * MIB)
first = cuda.make("cuGraphInstantiateWithFlags", made, 0)
second = c_uint64()
refused = cuda.cuGraphInstantiateWithFlags(byref(second), made, 0)
cuda.ok("cuGraphExecDestroy", first)
accepted = cuda.cuGraphInstantiateWithFlags(byref(second), made, 0)
tell(refused=refused, accepted=accepted)
""",
        block=block,
    )
    assert told == {"refused": 2, "accepted": 0}
    assert block.read_slots()[0].used_bytes[Kind.GRAPH] == 40 << 20


def test_a_graph_that_the_driver_refuses_leaves_no_charge(xcuda, make_block):
    block = make_block(memory_quota_bytes=64 << 20)
    told = run(
        xcuda,
        """
made, _ = graph(1)
allocation(made, 40 * MIB)
run = c_uint64()
codes = [cuda.cuGraphInstantiateWithFlags(byref(run), made, 0) for _ in range(3)]
tell(codes=codes, unknown=cuda.cuGraphExecDestroy(0))
""",
        block=block,
        env={"STUB_FAIL": "cuGraphInstantiateWithFlags:999@1,cuGraphInstantiateWithFlags:999@2"},
    )
    assert told["codes"] == [999, 999, 0]
    assert told["unknown"] != 0
    assert block.read_slots()[0].used_bytes[Kind.GRAPH] == 40 << 20


def test_a_graph_larger_than_the_cap_runs_alone(xcuda, make_block, server):
    ran = xcuda.run(
        "loop",
        "graph",
        "--count",
        20,
        "--kernel",
        "step_100us",
        "--grid",
        1000,
        block=make_block(inflight_cap=3),
        server=server,
        env={"STUB_TIME": "1"},
    )
    assert ran.told["failed"] == 0
