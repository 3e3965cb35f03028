from __future__ import annotations

import json
import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.names import EventKind, GpuState
from console.accounts.models import Role
from console.evictions.models import Eviction
from console.history import writing
from console.inventory.models import Gpu, Node
from console.scheduling.models import Decision, Round
from console.telemetry import latest, passport, timeline
from console.telemetry.latest import LiveGpu
from console.telemetry.models import NodeEvent
from tests.console.history.cast import samples
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import BUSY, CARD_BYTES, GIB, row

pytestmark = pytest.mark.django_db
HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "gpu-head"}


@pytest.fixture
def approver(client: Client) -> Client:
    client.force_login(cast.person(role=Role.APPROVER))
    return client


@pytest.fixture
def gpu() -> Gpu:
    return cast.node().gpus.get(index=0)


def live_gpu(gpu: Gpu, state: str = "HEALTHY", age_s: float = 0.5, **values) -> LiveGpu:
    now = time.time()
    known = row(**{**BUSY, "nearest_signal": 5, **values})
    number = list(GpuState).index(GpuState(state))
    return latest.live(gpu.pk, now - age_s, number, known, CARD_BYTES, now)


@pytest.fixture
def sample(monkeypatch):
    """Makes `live` what the console last heard of any GPU."""

    def put(live: LiveGpu | None) -> None:
        monkeypatch.setattr(passport, "live_of", lambda gpu_id: live)

    return put


def page(client: Client, gpu: Gpu, **headers) -> str:
    return client.get(reverse("gpu", args=[gpu.pk]), **headers).content.decode()


def an_event(gpu: Gpu, kind: EventKind, ago_s: float, **data) -> NodeEvent:
    now = timezone.now()
    return NodeEvent.objects.create(
        event_id=uuid4(), node=gpu.node, seq=int(ago_s), kind=kind, gpu=gpu,
        at=now - timedelta(seconds=ago_s), received_at=now, data=data,
    )  # fmt: skip


# --- map ----------------------------------------------------------------------------------


def test_the_map_asks_for_a_sign_in(client):
    assert client.get(reverse("map")).status_code == 302


def test_the_address_holds_the_view_of_the_map(approver):
    body = approver.get(reverse("map"), {"group": "node", "fill": "memory", "q": "eu"}).content
    text = body.decode()
    assert '<option value="node" selected>' in text
    assert '<option value="memory" selected>' in text
    assert 'value="eu"' in text


def test_a_view_that_does_not_exist_falls_back(approver):
    text = approver.get(reverse("map"), {"group": "<script>"}).content.decode()
    assert '<option value="pool" selected>' in text
    assert "<script>&" not in text


def test_the_layout_is_sent_once_and_then_only_its_tag(approver):
    cast.node()
    first = approver.get(reverse("live_layout"))
    assert json.loads(first.content)["nodes"]["name"] == ["node-07"]
    again = approver.get(reverse("live_layout"), headers={"if-none-match": first["ETag"]})
    assert again.status_code == 304


# --- one GPU ------------------------------------------------------------------------------


def test_an_unknown_gpu_is_not_found(approver):
    assert approver.get(reverse("gpu", args=[999])).status_code == 404


def test_a_gpu_of_a_pool_that_one_may_not_see_is_not_found(client, gpu):
    user = cast.person()
    user.bindings.update(pool=cast.pool("elsewhere"))
    client.force_login(user)
    assert client.get(reverse("gpu", args=[gpu.pk])).status_code == 404
    assert client.get(reverse("api_gpu_live", args=[gpu.pk])).status_code == 404


def test_without_live_data_nothing_reads_as_zero(approver, gpu, sample):
    sample(None)
    text = page(approver, gpu)
    assert "Nothing was heard of it yet" in text
    assert "No live data" in text
    assert ">0 %" not in text
    assert text.count("no data") > 5


def test_a_silent_gpu_says_since_when(approver, gpu, sample):
    sample(live_gpu(gpu, age_s=43))
    text = page(approver, gpu)
    assert "Last heard 43" in text
    assert "No live data" in text


def test_the_page_tells_tenant_guest_and_what_is_nearest(approver, gpu, sample):
    cast.service(gpu)
    cast.placement(gpu, effective_sm_share_percent=30, pending_sm_share_percent=25)
    sample(live_gpu(gpu, online_p99=48))
    text = page(approver, gpu)
    assert "search-rank" in text
    assert "over the SLO" in text
    assert "resnet-31" in text
    assert "at its next start" in text
    assert "Memory, " in text


def test_the_page_leads_to_why_its_guest_is_there_and_tells_what_its_agent_can(
    approver, gpu, sample
):
    Node.objects.filter(pk=gpu.node_id).update(capabilities=["duty", "freeze"], labels={"rack": 7})
    cast.placement(gpu)
    sample(live_gpu(gpu))
    text = page(approver, gpu)
    assert f"{reverse('why_not')}?job=resnet-31&amp;gpu=node-07%20/%20GPU%200" in text
    assert "duty, freeze" in text
    assert "rack=7" in text


def test_hardware_that_nobody_disabled_is_suspect(approver, gpu, sample):
    sample(live_gpu(gpu, state="DISABLED"))
    assert "Hardware suspect" in page(approver, gpu)
    Gpu.objects.update(disabled=True, disabled_reason="maintenance")
    text = page(approver, gpu)
    assert "Hardware suspect" not in text
    assert "disabled: maintenance" in text


def test_an_open_eviction_takes_the_place_of_the_button(approver, gpu, sample):
    placement = cast.placement(gpu)
    sample(live_gpu(gpu))
    assert "Evict resnet-31…" in page(approver, gpu)
    Eviction.objects.create(
        placement=placement, gpu=gpu, origin="move", state="PROPOSED", state_since=cast.T,
        proposed_at=cast.T, why="a move pays",
    )  # fmt: skip
    text = page(approver, gpu)
    assert "Decide on resnet-31" in text
    assert "Evict resnet-31…" not in text


def test_who_may_not_evict_reads_why(client, gpu, sample):
    client.force_login(cast.person(role=Role.VIEWER))
    cast.placement(gpu)
    sample(live_gpu(gpu))
    assert "You need the role approver in pool search-eu" in page(client, gpu)


def a_rest(gpu: Gpu, seconds_ago: float, cooldown_s: float) -> None:
    since = timezone.now() - timedelta(seconds=seconds_ago)
    Gpu.objects.filter(pk=gpu.pk).update(
        state=GpuState.COOLDOWN, state_since=since, cooldown_s=cooldown_s
    )
    Eviction.objects.create(
        placement=cast.placement(gpu, state="ENDED", ended_at=since), gpu=gpu, origin="overload",
        state="COMPLETED", state_since=since, ended_at=since, proposed_at=since, why="too hot",
    )  # fmt: skip


def test_a_rest_says_when_it_ends_and_after_what_it_is(approver, gpu, sample):
    sample(live_gpu(gpu, state="COOLDOWN"))
    a_rest(gpu, seconds_ago=100, cooldown_s=2_000)
    known = passport.load(gpu.pk, cast.person("ann"), timezone.now()).cooldown
    assert (known.ends_at - timezone.now()).total_seconds() == pytest.approx(1_900, abs=5)
    text = page(approver, gpu)
    assert f'ends in <time datetime="{known.ends_at:%Y-%m-%dT%H:%M:%S}' in text
    assert "It rests after resnet-31 was taken off" in text
    assert "longer than the first" in text


@pytest.mark.parametrize(
    ("state", "told_s", "heard"),
    [("HEALTHY", 60, "COOLDOWN"), ("COOLDOWN", 0, "COOLDOWN"), ("COOLDOWN", 60, "HEALTHY")],
)
def test_no_end_of_a_rest_is_made_up(gpu, sample, state, told_s, heard):
    sample(live_gpu(gpu, state=heard))
    Gpu.objects.update(state=state, cooldown_s=told_s)
    assert passport.load(gpu.pk, cast.person(), timezone.now()).cooldown is None


def test_of_xids_nothing_is_said_that_nobody_knows(approver, gpu, sample):
    sample(live_gpu(gpu, xid=None))
    row = page(approver, gpu).split('data-signal="xid"')[1].split("</section>")[0]
    assert "no data" in row
    assert "none now" not in row
    week = approver.get(reverse("gpu_xids", args=[gpu.pk])).content.decode()
    assert "nobody has told of any second" in week


def test_the_xids_of_a_week_are_those_of_its_history_and_events(approver, gpu):
    start = int(time.time()) // 60 * 60 - 600
    writing.store(samples([gpu.pk], start, 300, xid=0.0), 1)
    address = reverse("gpu_xids", args=[gpu.pk])
    assert "in the 5\u00a0min of 7 d that are known" in approver.get(address).content.decode()
    an_event(gpu, EventKind.TRANSITION, 90, signal="xid", value=79.0)
    text = approver.get(address).content.decode()
    assert "<b>79</b>" in text
    assert "ago</time>; " in text


def test_a_change_brings_only_the_parts_that_people_change(approver, gpu, sample):
    sample(live_gpu(gpu))
    text = page(approver, gpu, **HTMX)
    assert "<html" not in text
    assert text.count("hx-swap-oob") == 5


def test_the_same_few_queries_however_long_the_story(
    approver, gpu, sample, django_assert_max_num_queries
):
    sample(live_gpu(gpu))
    for number in range(20):
        an_event(gpu, EventKind.TRANSITION, number, **{"from": "HEALTHY", "to": "UNHEALTHY"})
        cast.placement(gpu, cast.job(f"job-{number}"), state="ENDED", ended_at=cast.T)
    cast.service(gpu)
    cast.placement(gpu)
    page(approver, gpu)  # makes the default policies, once
    with django_assert_max_num_queries(18):
        page(approver, gpu)


def test_the_series_says_that_it_knows_nothing_yet(approver, gpu):
    told = approver.get(reverse("gpu_series", args=[gpu.pk])).json()
    assert told["from"] is None
    assert told["charts"]["p99"]["x"] == []
    assert told["charts"]["memory"]["range"] == [0, CARD_BYTES / GIB]


# --- API ----------------------------------------------------------------------------------


def test_the_api_tells_values_with_their_limits(approver, gpu, sample):
    cast.service(gpu)
    sample(live_gpu(gpu))
    told = approver.get(reverse("api_gpu_live", args=[gpu.pk])).json()
    assert told["state"] == "HEALTHY"
    assert told["nearest_signal"] == "memory"
    p99 = next(one for one in told["signals"] if one["signal"] == "online_p99")
    assert (p99["value"], p99["slo"]) == (30, 40)
    assert told["online"]["over_slo"] is False
    assert told["guest"] is None


def test_the_api_says_null_where_nothing_is_known(approver, gpu, sample):
    sample(None)
    told = approver.get(reverse("api_gpu_live", args=[gpu.pk])).json()
    assert told["age_s"] is None
    assert {one["value"] for one in told["signals"]} == {None}
    assert set(told["values"].values()) == {None}
    assert told["silence"]


def test_the_fleet_is_told_to_those_who_hold_a_role(approver, client):
    cast.node()
    assert approver.get(reverse("api_fleet")).json()["gpus"] == 2
    assert Client().get(reverse("api_fleet")).status_code in {401, 403}


def test_the_fleet_is_told_as_far_as_one_sees_it(client, gpu):
    elsewhere = cast.node("node-08", gpus=3, token="another", pool=cast.pool("ads-us"))
    cast.placement(gpu)
    client.force_login(cast.person(role=Role.VIEWER, pool=elsewhere.pool))
    told = client.get(reverse("api_fleet")).json()
    assert (told["gpus"], told["running"]) == (3, 0)


# --- timeline -----------------------------------------------------------------------------


def test_the_timeline_is_newest_first_and_says_why(gpu):
    an_event(gpu, EventKind.TRANSITION, 60, **{"from": "HEALTHY", "to": "GUARDED", "why": "p99"})
    an_event(gpu, EventKind.FROZEN, 59, reaction_ms=400.0)
    cast.placement(gpu, created_at=timezone.now(), predicted_throughput=0.62)
    told = [(moment.what, moment.why) for moment in timeline.of(gpu)]
    assert told[0][0] == "resnet-31 placed here"
    assert "62" in told[0][1]
    assert told[1][0].startswith("Frozen after 0.4")
    assert told[2] == ("Healthy → Guarded", "p99")


def test_rounds_that_repeat_themselves_are_told_once(gpu):
    for number in range(5):
        one = Round.objects.create(kind="enforce", started_at=cast.T + timedelta(minutes=number))
        Decision.objects.create(round=one, gpu=gpu, kind="unused", code="no_job", why="no job fits")
    (moment,) = timeline.of(gpu)
    assert moment.at == cast.T


def test_nonsense_in_an_event_does_not_break_the_page(approver, gpu, sample):
    sample(live_gpu(gpu))
    an_event(gpu, EventKind.TRANSITION, 1, **{"from": 7, "to": ["x"], "why": {"a": 1}})
    an_event(gpu, EventKind.FROZEN, 2, reaction_ms="soon")
    an_event(gpu, EventKind.DEGRADED, 3, missing=None)
    assert approver.get(reverse("gpu", args=[gpu.pk])).status_code == 200


def test_the_page_tells_how_far_xcuda_holds_the_guest(approver, gpu, sample):
    sample(live_gpu(gpu))
    said = ["A process has left xCUDA."]
    cast.placement(gpu, xcuda_processes=1, cuda_processes=2, remarks=said)
    text = page(approver, gpu)
    assert "xCUDA coverage 1 of 2" in text
    assert said[0] in text


def test_the_room_for_a_guest_is_what_online_and_reserve_leave(gpu, sample):
    sample(live_gpu(gpu, online_memory_bytes=30 * GIB))
    known = passport.Passport(Gpu.objects.select_related("node__pool").get(pk=gpu.pk), cast.T)
    assert known.body is not None
    reserve = CARD_BYTES * known.body.memory_reserve_percent / 100
    assert known.quota_bytes == pytest.approx(50 * GIB - reserve)
    assert known.live is not None
    assert known.live.memory_percent == pytest.approx(50)
