from __future__ import annotations

from pathlib import Path

from agents.uninstall.plan import STATE_FILES, Act, DaemonFacts, Found, Plan, plan

STATE = Path("/var/lib/muxflow-agent")
MPS = Path("/var/lib/muxflow-mps")


def test_where_nothing_is_nothing_is_done():
    assert plan(Found()) == Plan((), (), ())


def test_an_agent_that_runs_and_jobs_that_live_must_end_first():
    told = plan(Found(agent_pid=7, live_jobs=("a", "b"))).obstacles
    assert len(told) == 2
    assert "PID 7" in told[0]
    assert "2 jobs still run (a, b)" in told[1]


def test_a_daemon_without_clients_is_ended_before_its_folder_goes():
    found = Found(daemons=(DaemonFacts("GPU-1", 0),), mps_places=(MPS / "GPU-1",))
    assert [step.act for step in plan(found).steps] == [Act.QUIT_DAEMON, Act.REMOVE_TREE]


def test_a_daemon_with_clients_stays_and_its_folder_with_it():
    daemons = (DaemonFacts("GPU-1", 3), DaemonFacts("GPU-2", None))
    decided = plan(Found(daemons=daemons, mps_places=(MPS / "GPU-1", MPS / "GPU-2")))
    assert decided.steps == ()
    assert "its 3 clients would die with it" in decided.kept[0]
    assert "mps disable --gpu GPU-2" in decided.kept[1]


def test_the_folder_of_a_daemon_that_is_gone_is_taken_away():
    (step,) = plan(Found(mps_places=(MPS / "GPU-1",))).steps
    assert (step.act, step.what) == (Act.REMOVE_TREE, str(MPS / "GPU-1"))


def test_what_is_not_the_agents_stays_and_is_named():
    decided = plan(Found(strangers=(STATE / "notes.txt",), recording=Path("/r")))
    assert decided.steps == ()
    assert decided.kept == (
        f"{STATE / 'notes.txt'}: not made by the agent",
        "/r: a recording that was asked for",
    )


def test_events_that_are_lost_with_it_are_counted():
    assert "5 events" in plan(Found(waiting_events=5)).kept[0]


def test_the_page_lists_all_that_is_left():
    page = (Path(__file__).parents[3] / "docs" / "agent.md").read_text().split("## Uninstall")[1]
    for name in STATE_FILES:
        stem, _, kind = name.partition("-")
        assert name.endswith(".new") or f"`{f'-{kind}' if kind else stem}`" in page
