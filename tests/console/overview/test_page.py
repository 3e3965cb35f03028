from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.wire.names import Origin
from console.accounts.models import Role
from console.evictions import services
from console.overview import attention, outlook, queries
from console.overview.windows import WINDOWS
from tests.console.accounts.cast import a_user
from tests.console.evictions.cast import a_placement, a_proposal, a_viewer, an_approver
from tests.console.faults import cast as faults
from tests.console.inventory.cast import NOW, a_gpu, a_node, a_pool
from tests.console.overview.cast import a_fleet_sample, sharing_went_on

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"
QUERIES_AT_MOST = 26


@pytest.fixture(autouse=True)
def no_demo(settings):
    settings.MUXFLOW_DEMO = False


@pytest.fixture
def sre(client):
    client.force_login(an_approver(), backend=BACKEND)
    return client


def a_busy_fleet() -> None:
    now = timezone.now()
    for number in range(4):
        pool = a_pool(f"pool-{number}", sharing_mode="enforce")
        node = a_node(f"node-{number}", pool, gpus=8, state="CONNECTED")
        sharing_went_on(now - timedelta(minutes=5), pool, sm_activity_percent=33.9)
        for minute in range(10):
            a_fleet_sample(now - timedelta(minutes=minute), pool)
        a_node(f"silent-{number}", pool, gpus=2, state="STALE")
        a_gpu(node, 8, state="DISABLED", state_why="XID 79")
    a_proposal(a_placement())


def test_the_page_of_an_empty_console_says_what_to_do(sre):
    html = sre.get("/").content.decode()
    assert "No node has joined yet" in html
    assert "Nothing waits for a person" in html


def test_the_page_takes_few_queries(sre, django_assert_max_num_queries):
    a_busy_fleet()
    with django_assert_max_num_queries(QUERIES_AT_MOST):
        html = sre.get("/").content.decode()
    assert "33.9\u00a0% before sharing" in html


def test_the_series_hold_what_the_page_drew(sre):
    a_busy_fleet()
    data = sre.get("/overview/series.json?window=15m").json()
    assert len(data["charts"]["sm"]["x"]) == 10
    assert data["charts"]["sm"]["series"][0]["values"][-1] == 34.0
    assert data["words"]["sm_gain"] == "+0.1\u00a0points"


@pytest.mark.parametrize("window", [window.key for window in WINDOWS])
def test_every_window_can_be_read(sre, window):
    a_busy_fleet()
    data = sre.get(f"/overview/series.json?window={window}").json()
    assert data["window"] == window
    assert data["charts"]["sm"]["x"] == sorted(data["charts"]["sm"]["x"])


def test_somebody_without_a_sign_in_sees_nothing(client):
    assert client.get("/").status_code == 302
    assert client.get("/overview/series.json").status_code == 302


def test_htmx_reads_the_list_alone(sre):
    a_proposal()
    html = sre.get("/", headers={"HX-Request": "true", "HX-Target": "todo"}).content.decode()
    assert html.count("<section") == 1
    assert "resnet-31" in html


def test_htmx_hears_that_sharing_went_on(sre):
    a_node(pool=a_pool(sharing_mode="enforce"), gpus=2)
    html = sre.get("/", headers={"HX-Request": "true", "HX-Target": "sharing"}).content.decode()
    assert "Turn sharing on" not in html
    assert 'hx-swap-oob="true">Sharing: enforce in 1 pool' in html


def test_deadlines_come_first_and_the_soonest_first():
    a_busy_fleet()
    found = attention.items(NOW)
    assert found[0].template == "overview/_todo_eviction.html"
    assert all(item.due is None for item in found[1:])


def test_many_of_a_kind_are_one_line():
    for number in range(attention.MOST_OF_A_KIND + 3):
        a_node(f"node-{number}", gpus=1, state="LOST")
    (more,) = [item for item in attention.items(NOW) if item.template.endswith("_more.html")]
    assert more.subject.count == 3


def test_a_silent_node_tells_how_many_jobs_are_unknown():
    node = a_node(gpus=2, state="STALE")
    a_placement(node.gpus.first())
    (item,) = attention.items(NOW)
    assert (item.subject.gpu_count, item.subject.guest_count) == (2, 1)


def test_online_that_did_not_come_back_needs_a_person_for_a_day(sre):
    gpu = faults.a_shared_gpu()
    faults.tell(gpu, 1, ended=True)
    mended = faults.tell(gpu, 2, ended=True, recovered_s=3.0)
    (item,) = attention.items(NOW + timedelta(hours=23))
    assert (item.template, item.subject.gpu) == ("overview/_todo_fault.html", gpu)
    assert item.subject != mended
    assert attention.items(NOW + timedelta(hours=25)) == []


def test_the_line_of_a_fault_leads_to_it(sre):
    gpu = faults.a_shared_gpu()
    fault = faults.tell(gpu, 1, now=timezone.now(), ended=True)
    html = sre.get("/").content.decode()
    assert f'href="/faults/{fault.pk}/"' in html


def test_somebody_sees_the_counts_of_their_pools_alone(client):
    mine, other = a_node("mine", a_pool("a"), gpus=2), a_node("theirs", a_pool("b"), gpus=3)
    a_proposal(a_placement(other.gpus.first()))
    client.force_login(a_user("pat", Role.VIEWER, pool=mine.pool), backend=BACKEND)
    page = client.get("/")
    assert page.context["fleet"].gpus == 2
    assert page.context["jobs"]["running"] == 0
    assert page.context["todo"] == []
    assert page.context["shell"].pending_evictions == 0
    assert page.context["scopes"] == [
        ("", "All pools that you see · 2 GPUs"), ("a", "a · 2 GPUs"),
    ]  # fmt: skip
    assert "theirs" not in page.content.decode()
    assert client.get("/overview/series.json?pool=b").json()["now"] == {}


def test_gpus_are_counted_as_the_live_summary_counts_them():
    node = a_node(state="CONNECTED")
    a_gpu(node, 0)
    a_gpu(node, 1, state="DISABLED", disabled=True)
    a_gpu(node, 2, state="DISABLED")
    a_gpu(a_node("node-02", state="STALE"))
    counts = {"HEALTHY": 1, "DISABLED": 1, "QUARANTINED": 1, "NO_DATA": 1}
    assert queries.states() == counts


def test_the_outlook_says_who_could_share():
    node = a_node(pool=a_pool(holdback_percent=3), gpus=9)
    a_gpu(node, 9, unshareable_fact="MIG is on")
    found = outlook.outlook()
    assert (found.gpus, found.able, found.held) == (10, 8, 1)
    assert found.facts == (("MIG is on", 1),)


def test_a_viewer_sees_why_sharing_cannot_be_turned_on(client):
    a_node(gpus=2)
    client.force_login(a_viewer(), backend=BACKEND)
    html = client.get("/").content.decode()
    assert "Turn sharing on" in html
    assert "You need the role operator" in html


def test_a_pool_switched_twice_keeps_its_last_baseline():
    pool = a_pool()
    a_node(pool=pool, gpus=4)
    sharing_went_on(NOW, pool, sm_activity_percent=10.0)
    sharing_went_on(NOW + timedelta(hours=1), pool, sm_activity_percent=30.0)
    found = queries.before_sharing(queries.sharing_changes(), queries.pools(a_viewer()))
    assert found.sm_activity_percent == 30.0


def test_pools_switched_together_have_one_mark():
    for name in ("a", "b"):
        sharing_went_on(NOW, a_pool(name))
    (mark,) = queries.marks(queries.sharing_changes())
    assert (mark.word, mark.actor) == ("Sharing on", "ortega")


def test_a_scope_narrows_every_part_of_the_page(sre):
    a_busy_fleet()
    a_fleet_sample(timezone.now(), a_pool("pool-0"), sm_activity_percent=80)
    data = sre.get("/overview/series.json?window=15m&pool=pool-0").json()
    assert data["now"]["sm_activity"] == 80
    assert data["now"]["gpus"] == 11
    assert data["now"]["states"] == {"HEALTHY": 8, "QUARANTINED": 1, "NO_DATA": 2}


def test_a_scope_narrows_what_needs_a_person(sre):
    a_busy_fleet()
    html = sre.get("/?pool=pool-1").content.decode()
    assert "silent-1" in html
    assert "silent-0" not in html


def test_an_unknown_scope_is_the_whole_fleet(sre):
    a_busy_fleet()
    assert sre.get("/overview/series.json?pool=nonsense").json()["now"] == {}


def test_a_move_says_where_to_and_what_it_gains(sre):
    placement = a_placement()
    other = a_gpu(a_node("node-02", state="CONNECTED"))
    evidence = {"gain": 0.21, "pays_back_s": 1140}
    services.propose(placement, Origin.MOVE, "Faster there.", evidence, NOW, to_gpu=other)
    html = sre.get("/").content.decode()
    assert "to node-02 / GPU 0" in html
    assert "gains ≈\u00a00.21\u00a0GPU, pays back in ≈\u00a019\u00a0min" in html


def test_the_page_shows_the_formula_and_where_figures_come_from(sre):
    node = a_node("node-1", a_pool("web"), gpus=2)
    a_gpu(node, 2, source="nvml", model="NVIDIA H100", driver="590.48")
    html = sre.get("/").content.decode()
    assert "Σ normalised throughput × hours − lost work − restarts" in html
    assert "GPU read by NVML (NVIDIA H100, driver 590.48)" in html
    assert [one.word for one in queries.sources()] == ["simulated", "read by NVML"]


def test_figures_of_now_can_be_held_against_what_was_before_sharing(sre):
    a_busy_fleet()
    before = sre.get("/overview/series.json").json()["before"]
    assert before["sm_activity"] == 33.9
