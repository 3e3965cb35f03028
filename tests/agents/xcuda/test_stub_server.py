"""Processes that share the stand-in's MPS server share one device, and each other's fate."""

from __future__ import annotations

import signal

import pytest

from tests.agents.xcuda.running import Server
from tests.process_states import state_of

TIMED = {"STUB_TIME": "1"}
LONG = ("--kernel", "step_20000us", "--grid", 1000, "--seconds", 60)


def test_a_client_killed_with_work_in_flight_takes_the_server_down(bare, server):
    victim = bare.start("loop", "launch-sync", *LONG, preload=False, server=server, env=TIMED)
    culprit = bare.start("loop", "launch", *LONG, preload=False, server=server, env=TIMED)
    _wait_for_work(server, culprit.pid)
    culprit.kill()
    culprit.wait()
    told = server.report()
    assert (told["state"], told["exits_unsafe"], told["exits_in_flight"]) == ("UNDEFINED", 1, 1)
    assert told["last_unsafe_pid"] == culprit.pid
    victim.terminate()
    bare.finish(victim)
    late = bare.run("loop", "launch", preload=False, server=server, env=TIMED)
    assert "returned 806" in late.stderr


def test_the_other_clients_get_806(bare, server):
    victim = bare.python(
        """
        cuda.start()
        print("ready", flush=True)
        end = time.monotonic() + 8
        while (code := cuda.launch()) == 0 and time.monotonic() < end:
            time.sleep(0.001)
        tell(code=code)
        """,
        ready=True,
        preload=False,
        server=server,
        env=TIMED,
    )
    culprit = bare.start("loop", "launch", *LONG, preload=False, server=server, env=TIMED)
    _wait_for_work(server, culprit.pid)
    culprit.kill()
    culprit.wait()
    assert bare.finish(victim).told == {"code": 806}


def test_a_zombie_is_dead_before_its_parent_knows(bare, server):
    culprit = bare.start("loop", "launch", *LONG, preload=False, server=server, env=TIMED)
    _wait_for_work(server, culprit.pid)
    culprit.send_signal(signal.SIGTERM)
    while not _is_zombie(culprit.pid):
        pass
    assert server.report()["exits_unsafe"] == 1


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        ("cuda.launch(); cuda.ok('cuCtxSynchronize'); os._exit(0)", "exits_idle"),
        ("cuda.launch(); cuda.ok('cuDevicePrimaryCtxReset_v2', 0); os._exit(0)", "exits_released"),
        ("cuda.launch(); sys.exit(0)", "exits_released"),  # as a real driver: exit() is proper
        ("cuda.launch(); os._exit(0)", "exits_unsafe"),
        # It would have been done, but the client never looked.
        ("cuda.launch(); time.sleep(0.005); os._exit(0)", "exits_unsafe"),
    ],
)
def test_exits_are_told_apart(bare, server, end, counted):
    process = bare.python(
        f"import os; cuda.start(); print('ready', flush=True); {end}",
        ready=True,
        preload=False,
        server=server,
        env=TIMED | {"STUB_BLOCK_US": "500"},
    )
    assert bare.finish(process).returncode == 0
    told = server.report()
    exits = {name: told[name] for name in ("exits_idle", "exits_released", "exits_unsafe")}
    assert exits == dict.fromkeys(exits, 0) | {counted: 1}


def test_a_fatal_error_reaches_all_and_ends_with_them(bare, server):
    victim = bare.python(
        """
        cuda.start()
        print("ready", flush=True)
        end = time.monotonic() + 8
        while (code := cuda.launch()) == 0 and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(1)
        tell(code=code)
        """,
        ready=True,
        preload=False,
        server=server,
    )
    fault = {"STUB_FAIL": "cuLaunchKernel:700@5"}
    culprit = bare.run("loop", "launch-sync", preload=False, server=server, env=fault)
    assert "returned 700" in culprit.stderr
    late = bare.run("loop", "launch", preload=False, server=server)
    assert "returned 807" in late.stderr
    assert bare.finish(victim).told == {"code": 700}
    assert server.report()["state"] == "ACTIVE"
    assert bare.run("loop", "launch", "--count", 1, preload=False, server=server).returncode == 0


def test_memory_is_counted_over_all_processes_and_comes_back_from_the_dead(bare, server):
    holder = bare.python(
        """
        cuda.start()
        cuda.make("cuMemAlloc_v2", 700 * MIB)
        print("ready", flush=True)
        time.sleep(60)
        """,
        ready=True,
        preload=False,
        server=server,
        env={"STUB_MEMORY": "1GiB", "STUB_WATCH": "600MiB"},
    )
    ask = """
        cuda.start()
        tell(code=cuda.cuMemAlloc_v2(byref(c_uint64()), 400 * MIB))
        """
    assert bare.python(ask, preload=False, server=server) == {"code": 2}
    told = server.report()
    assert (told["used_bytes"], told["over_watch"]) == (700 << 20, 1)
    holder.kill()
    holder.wait()
    assert server.report()["used_bytes"] == 0
    assert bare.python(ask, preload=False, server=server) == {"code": 0}


def test_a_share_limits_what_a_client_gets_and_sees(bare, server):
    told = bare.python(
        """
        cuda.start()
        sms = c_int()
        cuda.ok("cuDeviceGetAttribute", byref(sms), 16, 0)
        begin, end, ms = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0), c_float()
        cuda.launch(cuda.kernel("before_20000us"), 1, 0)  # time to queue the rest
        cuda.ok("cuEventRecord", begin, 0)
        cuda.launch(cuda.kernel("step_1000us"), 1000, 0)
        cuda.ok("cuEventRecord", end, 0)
        cuda.ok("cuCtxSynchronize")
        cuda.ok("cuEventElapsedTime", byref(ms), begin, end)
        tell(sms=sms.value, ms=ms.value)
        """,
        preload=False,
        server=server,
        env=TIMED | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"},
    )
    assert told["sms"] == 25
    assert told["ms"] == pytest.approx(4.0, abs=0.01)


def test_a_busy_neighbour_slows_a_request_down_as_an_idle_one_does_not(bare, server):
    """By how much, `native/test_gpu.c` proves on a turned clock and the benchmark measures."""
    service = ("online", "--requests", 40, "--period-ms", 6)
    how = {"preload": False, "server": server, "env": TIMED}
    idle = bare.python(
        "cuda.start(); print('ready', flush=True); time.sleep(60)", ready=True, **how
    )
    beside_idle = bare.run(*service, **how).told["device_p50_ms"]
    idle.kill()
    busy = ("--kernel", "train_500us", "--grid", 2000, "--seconds", 60)
    bare.start("loop", "launch", *busy, **how)
    assert bare.run(*service, **how).told["device_p50_ms"] > beside_idle


def test_two_racers_without_a_quota_go_over_it(bare, server):
    """What the quota tests of the library count does happen without it."""
    race = ("racer", "--rounds", 20_000, "--bytes", 600 << 20, "--quota", 1 << 30)
    how = {"preload": False, "server": server, "env": {"STUB_WATCH": "1GiB"}}
    first = bare.start(*race, "--seed", 1, **how)
    second = bare.run(*race, "--seed", 2, **how).told
    told = [second, bare.finish(first).told]
    assert all(it["other"] == it["own_bytes_left"] == 0 for it in told)
    assert server.report()["over_watch"] > 0
    assert server.report()["used_bytes"] == 0


def _wait_for_work(server: Server, pid: int) -> None:
    while not any(it["in_flight"] for it in server.report()["clients"] if it["pid"] == pid):
        pass


def _is_zombie(pid: int) -> bool:
    return state_of(pid) == "Z"
