"""The page of a replay: around what, for whom, and with what on its time line."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from django.urls import reverse

from agents.wire import packed, samples
from agents.wire.ids import uuid7
from agents.wire.messages import GpuSample, Telemetry
from agents.wire.names import GPU_STATES, SIGNALS, EventKind, GpuState, Origin, Phase, Signal
from console.accounts.models import Role
from console.evictions.models import Eviction
from console.history import writing
from console.inventory.models import Gpu
from console.policies import services as policies
from console.replay import recordings
from console.telemetry.models import NodeEvent
from tests.console.history.cast import samples as history
from tests.console.telemetry.cast import node, person, placement, pool, service

pytestmark = pytest.mark.django_db
START = int(time.time()) // 60 * 60 - 3_600
MOMENT = START + 300


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


@pytest.fixture
def gpu() -> Gpu:
    owner = node()
    gpu = owner.gpus.get(index=0)
    service(gpu)
    policies.ensure_defaults(at(START - 60), demo=False)
    return gpu


def event(gpu: Gpu, second: float, kind: EventKind, **data: object) -> NodeEvent:
    return NodeEvent.objects.create(
        event_id=uuid7(), node=gpu.node, seq=1, kind=kind, at=at(second),
        received_at=at(second), gpu=gpu, data=data,
    )  # fmt: skip


def an_eviction(gpu: Gpu) -> Eviction:
    eviction = Eviction.objects.create(
        placement=placement(gpu, state="ENDED", created_at=at(START - 600)),
        gpu=gpu, origin=Origin.OVERLOAD, state="COMPLETED", state_since=at(MOMENT + 9),
        proposed_at=at(MOMENT), ended_at=at(MOMENT + 9), why="p99 over its limit", by_node=True,
    )  # fmt: skip
    eviction.phases.create(phase=Phase.GONE, at=at(MOMENT + 8))
    return eviction


def page(client, gpu: Gpu, **asked: object) -> str:
    client.force_login(person(role=Role.VIEWER))
    answer = client.get(reverse("replay", args=[gpu.pk]), asked)
    assert answer.status_code == 200
    return answer.content.decode()


def data(html: str) -> dict:
    return json.loads(re.search(r'id="replay-data"[^>]*>(.*?)</script>', html, re.S)[1])


def test_the_ten_minutes_around_an_eviction_with_all_that_happened(
    client, gpu, django_assert_max_num_queries
):
    writing.store(history([gpu.pk], START, 600), 1)
    event(gpu, MOMENT - 1, EventKind.TRANSITION, **{"from": "HEALTHY", "to": "GUARDED"})
    event(gpu, MOMENT - 1, EventKind.FROZEN, reaction_ms=400, why="p99 70 ms over 60 ms")
    eviction = an_eviction(gpu)
    client.force_login(person(role=Role.VIEWER))
    with django_assert_max_num_queries(25):
        html = client.get(
            reverse("replay", args=[gpu.pk]), {"eviction": str(eviction.pk)}
        ).content.decode()
    drawn = data(html)
    assert (drawn["start"], drawn["end"]) == (START, START + 600)
    assert len(drawn["times"]) == 600
    for told in ("Eviction begun by the node", "Gone:", "Frozen after 0.4", "Healthy → Guarded"):
        assert told in html
    assert "each second as it was" in html
    assert "No second is missing." in html
    assert "Balanced v1" in html


def test_what_was_not_recorded_is_missing_and_no_zero(client, gpu):
    writing.store(history([gpu.pk], START, 120), 1)
    html = page(client, gpu, at=MOMENT, mark=START + 400)
    drawn = data(html)
    p99 = next(one for one in drawn["tracks"] if one["name"] == Signal.ONLINE_P99)
    assert p99["values"][-1] is None
    assert len(drawn["times"]) == 121
    assert re.search(r'data-reading="online_p99".*?no data', html, re.S)
    assert "did not hear the node" in html


def test_the_event_of_an_eviction_shows_what_the_history_has_not(client, gpu):
    values = tuple(70.0 if one is Signal.ONLINE_P99 else None for one in SIGNALS)
    seconds = [
        samples.second(packed.pack(Telemetry(number, float(MOMENT - 60 + number), (
            GpuSample(0, GPU_STATES.index(GpuState.GUARDED), values, values),
        ))))
        for number in range(60)
    ]  # fmt: skip
    window = samples.event_data(samples.block(seconds))
    told = msgspec.json.decode(msgspec.json.encode(window))
    event(gpu, MOMENT, EventKind.EVICTION_STARTED, window=told)
    drawn = data(page(client, gpu, at=MOMENT))
    p99 = next(one for one in drawn["tracks"] if one["name"] == Signal.ONLINE_P99)
    assert p99["values"] == [70.0] * 60 + [None]


def test_a_window_that_is_none_is_left_out():
    assert list(recordings.of_event({"window": {"times": [1], "deflated": "!"}})) == []
    assert list(recordings.of_event({})) == []


@pytest.mark.parametrize("asked", [{"at": "soon"}, {"at": "1e99"}, {"eviction": "7"}])
def test_what_is_no_moment_is_not_found(client, gpu, asked):
    client.force_login(person(role=Role.VIEWER))
    assert client.get(reverse("replay", args=[gpu.pk]), asked).status_code == 404


def test_an_eviction_of_another_gpu_and_a_gpu_out_of_sight_are_not_found(client, gpu):
    other, eviction = gpu.node.gpus.last(), an_eviction(gpu)
    client.force_login(person(role=Role.VIEWER))
    asked = {"eviction": str(eviction.pk)}
    assert client.get(reverse("replay", args=[other.pk]), asked).status_code == 404
    client.force_login(person("stranger", Role.VIEWER, pool("elsewhere")))
    assert client.get(reverse("replay", args=[gpu.pk])).status_code == 404


def test_the_pages_lead_to_the_replay(client, gpu):
    eviction = an_eviction(gpu)
    client.force_login(person(role=Role.APPROVER))
    around = f"{reverse('replay', args=[gpu.pk])}?"
    gpu_page = client.get(reverse("gpu", args=[gpu.pk])).content.decode()
    assert f"{around}at={MOMENT + 9}" in gpu_page
    for address in (
        reverse("eviction", args=[eviction.pk]),
        reverse("job", args=[eviction.placement.job_id]),
    ):
        assert f"{around}eviction={eviction.pk}" in client.get(address).content.decode()


def test_the_future_is_not_shown(client, gpu):
    drawn = data(page(client, gpu, at=time.time() + timedelta(days=1).total_seconds()))
    assert drawn["end"] <= time.time()
