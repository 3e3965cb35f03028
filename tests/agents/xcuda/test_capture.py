"""While a stream captures, its launches are recorded: they are neither charged nor held, and
nothing that we do ends up in the graph or spoils it."""

from __future__ import annotations

import pytest

from agents.control_block import Limits, Mode
from tests.agents.xcuda.watching import until

TIMED = {"STUB_TIME": "1"}
MEASURED = {"inflight_cap": 4, "duty_permille": 500}

CAPTURES = """
cuda.start()
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
NODES = 40
def begin(stream, mode=GLOBAL):
    cuda.ok("cuStreamBeginCapture_v2", stream, mode)
def end(stream):
    return cuda.make_from("cuStreamEndCapture", stream)
def nodes(graph):
    count = c_uint64()
    cuda.ok("cuGraphGetNodes", graph, None, byref(count))
    return count.value
def made_from(name, *arguments):
    made = c_uint64()
    cuda.ok(name, *arguments, byref(made))
    return made.value
Cuda.make_from = staticmethod(made_from)
stream = cuda.make("cuStreamCreate", 1)
"""


def run(xcuda, code, **how):
    return xcuda.python(CAPTURES + code, **how)


@pytest.mark.parametrize("mode", ["GLOBAL", "THREAD_LOCAL", "RELAXED"])
def test_a_graph_holds_what_the_program_launched_and_no_more(xcuda, make_block, mode):
    block = make_block(**MEASURED)
    told = run(
        xcuda,
        f"""
for _ in range(20):
    cuda.launch(blocks=10, stream=stream)
begin(stream, {mode})
for _ in range(NODES):
    cuda.launch(blocks=10, stream=stream)
graph = end(stream)
run = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
cuda.ok("cuGraphLaunch", run, stream)
cuda.ok("cuStreamSynchronize", stream)
tell(nodes=nodes(graph))
""",
        block=block,
        env=TIMED,
    )
    assert told == {"nodes": 40}
    assert block.read_slots()[0].launches == 20 + 40


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("cuStreamBeginCapture, stream", "cuStreamEndCapture"),
        ("cuStreamBeginCapture_ptsz, stream", "cuStreamEndCapture_ptsz"),
        ("cuStreamBeginCapture_v2_ptsz, stream, 0", "cuStreamEndCapture_ptsz"),
        ("cuStreamBeginCapture_v2_ptsz, 0, 0", "cuStreamEndCapture_ptsz"),
    ],
)
def test_every_way_to_capture_is_known(xcuda, make_block, begin, end):
    name, *arguments = begin.split(", ")
    where = arguments[0]
    launched = where if where != "0" else "2"  # the stream of the thread
    told = run(
        xcuda,
        f"""
cuda.ok({name!r}, {", ".join(arguments)})
for _ in range(1000):
    cuda.launch(stream={launched})
graph = made_from({end!r}, {where})
tell(nodes=nodes(graph), after=cuda.launch())
""",
        block=make_block(launches_per_s=1),
    )
    assert told == {"nodes": 1000, "after": 0}


def test_a_capture_into_a_graph_of_the_program_is_known(xcuda, make_block):
    told = run(
        xcuda,
        """
graph = cuda.make("cuGraphCreate", 0)
cuda.ok("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, GLOBAL)
for _ in range(1000):
    cuda.launch(stream=stream)
end(stream)
tell(nodes=nodes(graph))
""",
        block=make_block(launches_per_s=1),
    )
    assert told == {"nodes": 1000}


def test_recorded_launches_cost_nothing(xcuda, make_block):
    block = make_block(launches_per_s=1)
    run(
        xcuda,
        """
begin(stream)
for _ in range(1000):
    cuda.launch(stream=stream)
end(stream)
tell()
""",
        block=block,
    )
    assert block.read_slots()[0].launches == 0


def test_a_stream_that_joins_a_capture_is_free_too(xcuda, make_block):
    told = run(
        xcuda,
        """
side, fork, join = cuda.make("cuStreamCreate", 1), *(cuda.make("cuEventCreate", 0) for _ in "12")
begin(stream)
cuda.ok("cuEventRecord", fork, stream)
cuda.ok("cuStreamWaitEvent", side, fork, 0)
for _ in range(500):
    cuda.launch(stream=side)
cuda.ok("cuEventRecord", join, side)
cuda.ok("cuStreamWaitEvent", stream, join, 0)
tell(nodes=nodes(end(stream)))
""",
        block=make_block(launches_per_s=1, **MEASURED),
    )
    assert told["nodes"] >= 500


def test_other_streams_are_charged_meanwhile(xcuda, make_block):
    block = make_block(**MEASURED)
    run(
        xcuda,
        """
other = cuda.make("cuStreamCreate", 1)
begin(stream, THREAD_LOCAL)
for _ in range(10):
    cuda.launch(stream=stream)
    cuda.launch(blocks=3, stream=other)
end(stream)
cuda.ok("cuCtxSynchronize")
tell()
""",
        block=block,
        env=TIMED,
    )
    [process] = block.read_slots()
    assert (process.launches, process.blocks) == (10, 30)


def test_launches_of_another_thread_do_not_spoil_a_capture(xcuda, make_block):
    told = run(
        xcuda,
        """
import threading
context, over = c_void_p(), threading.Event()
cuda.ok("cuCtxGetCurrent", byref(context))
def work():
    cuda.ok("cuCtxSetCurrent", context)
    other = cuda.make("cuStreamCreate", 1)
    while not over.is_set():
        cuda.launch(blocks=10, stream=other)
thread = threading.Thread(target=work)
thread.start()
found = set()
for _ in range(50):
    begin(stream)
    for _ in range(NODES):
        cuda.launch(stream=stream)
    found.add(nodes(end(stream)))
over.set()
thread.join()
tell(found=sorted(found))
""",
        block=make_block(**MEASURED),
        env=TIMED,
    )
    assert told == {"found": [40]}


def test_limits_hold_again_after_a_capture(xcuda, make_block):
    told = run(
        xcuda,
        """
kernel, items, most = cuda.kernel("step_500us"), c_uint32(), 0
begin(stream)
again = cuda.cuStreamBeginCapture_v2(stream, GLOBAL)
cuda.launch(stream=stream)
end(stream)
nothing = c_uint64()
not_begun = cuda.cuStreamEndCapture(stream, byref(nothing))
for _ in range(20):
    cuda.launch(kernel, 1000, stream)
    cuda.ok("stubInFlight", byref(items))
    most = max(most, items.value)
tell(again=again, not_begun=not_begun, most=most)
""",
        block=make_block(inflight_cap=2),
        env=TIMED,
    )
    assert told["again"] != 0
    assert told["not_begun"] != 0
    assert told["most"] <= 2


def test_a_capture_that_failed_is_over(xcuda, make_block):
    told = run(
        xcuda,
        """
begin(stream)
cuda.launch(stream=stream)
spoiled = cuda.cuStreamSynchronize(stream)
nothing = c_uint64()
ended = cuda.cuStreamEndCapture(stream, byref(nothing))
kernel, items, most = cuda.kernel("step_500us"), c_uint32(), 0
for _ in range(20):
    cuda.launch(kernel, 1000, stream)
    cuda.ok("stubInFlight", byref(items))
    most = max(most, items.value)
tell(spoiled=spoiled != 0, ended=ended != 0, most=most)
""",
        block=make_block(inflight_cap=2),
        env=TIMED,
    )
    assert told["spoiled"]
    assert told["ended"]
    assert told["most"] <= 2


def test_a_freeze_does_not_hold_a_capture_but_the_launch_of_its_graph(xcuda, make_block):
    block = make_block(mode=Mode.FREEZE)
    job = xcuda.python(
        CAPTURES
        + """
print("ready", flush=True)
begin(stream)
for _ in range(NODES):
    cuda.launch(stream=stream)
graph = end(stream)
run = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
cuda.ok("cuGraphLaunch", run, stream)
cuda.ok("cuStreamSynchronize", stream)
tell(nodes=nodes(graph))
""",
        ready=True,
        block=block,
    )
    until(lambda: block.read_slots() and block.read_slots()[0].frozen_ns)
    assert block.read_slots()[0].launches == 0
    block.set_policy(Limits())
    assert xcuda.finish(job).told == {"nodes": 40}
    assert block.read_slots()[0].launches == 40


def test_a_stream_destroyed_while_it_captures_leaves_the_limits_in_force(xcuda, make_block):
    told = run(
        xcuda,
        """
other, kernel = cuda.make("cuStreamCreate", 1), cuda.kernel("step_500us")
items, most = c_uint32(), 0
begin(stream, RELAXED)
cuda.launch(stream=stream)
destroyed = cuda.cuStreamDestroy_v2(stream)
for _ in range(20):
    cuda.launch(kernel, 1000, other)
    cuda.ok("stubInFlight", byref(items))
    most = max(most, items.value)
tell(destroyed=destroyed, most=most)
""",
        block=make_block(inflight_cap=2),
        env=TIMED,
    )
    assert told == {"destroyed": 0, "most": 2}


LOST = {
    "destroyed": """
context = cuda.make("cuCtxCreate_v2", 0, 0)
begin(cuda.make("cuStreamCreate", 1), RELAXED)
cuda.ok("cuCtxDestroy_v2", context)
""",
    "reset": """
begin(stream, RELAXED)
cuda.ok("cuDevicePrimaryCtxReset_v2", 0)
""",
    "a thread's own": """
import os, threading
def begin_and_end():
    cuda.start()
    cuda.ok("cuStreamBeginCapture_v2_ptsz", 0, RELAXED)
thread = threading.Thread(target=begin_and_end)
thread.start()
while os.path.exists(f"/proc/self/task/{thread.native_id}"):  # longer than it can be joined
    time.sleep(0.001)
""",
}


@pytest.mark.parametrize("how", LOST)
def test_a_capture_that_nobody_can_end_leaves_the_limits_in_force(xcuda, make_block, how):
    told = run(
        xcuda,
        LOST[how]
        + """
cuda.start()
other, kernel = cuda.make("cuStreamCreate", 1), cuda.kernel("step_500us")
items, most = c_uint32(), 0
for _ in range(20):
    cuda.launch(kernel, 1000, other)
    cuda.ok("stubInFlight", byref(items))
    most = max(most, items.value)
tell(most=most)
""",
        block=make_block(inflight_cap=2),
        env=TIMED,
    )
    assert told == {"most": 2}
