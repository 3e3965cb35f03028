"""What a node tells of a fault is stored once, the latest holds, and its job is held once."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest

from agents.mps import timeline
from agents.wire.messages import EventBatch
from console.audit.models import Entry
from console.faults import services
from console.faults.models import Fault
from console.telemetry.models import NodeEvent
from console.workloads.models import OfflineJob
from tests.console.faults import cast
from tests.console.inventory.cast import NOW
from tests.console.telemetry.cast import persist

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpu():
    return cast.a_shared_gpu()


def actions() -> list[str]:
    return list(Entry.objects.order_by("pk").values_list("action", flat=True))


def test_a_fault_names_who_was_first_and_who_was_hit(gpu):
    fault = cast.tell(gpu)
    placement = cast.guest(gpu)
    assert (fault.gpu, fault.placement, fault.job) == (gpu, placement, placement.job)
    assert [service.name for service in fault.services_hit.all()] == ["search-rank"]
    assert (fault.code, fault.seen_at, fault.state) == (700, NOW, "RECOVERING")
    assert fault.service is None


def test_a_fault_of_online_names_the_service_and_holds_nobody(gpu):
    fault = cast.tell(gpu, first=cast.online(gpu), others=[cast.offline(gpu)])
    assert fault.service.name == "search-rank"
    assert [job.name for job in fault.jobs_hit.all()] == ["resnet-31"]
    assert OfflineJob.objects.get().held_until is None


def test_the_latest_telling_holds_whatever_comes_after_it(gpu):
    first = cast.data(gpu)
    more = first | {"recovered_s": 3.2, "ended": True, "moments": [{"after_s": 3.2, "what": "ok"}]}
    cast.tell(gpu, 1, first)
    cast.tell(gpu, 3, more)
    fault = cast.tell(gpu, 2, first)
    assert (fault.recovered_s, fault.told_seq, fault.state) == (3.2, 3, "RECOVERED")
    assert fault.ended_at == NOW


def test_beginning_and_end_are_audited_once(gpu):
    told = cast.data(gpu)
    over = told | {"recovered_s": 2.0, "ended": True}
    for seq, data in enumerate([told, told, over, over], start=1):
        cast.tell(gpu, seq, data)
    assert actions() == ["fault.begin", "job.hold", "fault.end"]
    assert {entry.cause_id for entry in Entry.objects.all()} == {Fault.objects.get().pk}


def test_a_job_is_held_once_for_a_fault_however_often_it_is_told(gpu):
    told = cast.data(gpu)
    for seq in range(1, 6):
        cast.tell(gpu, seq, told)
    job = OfflineJob.objects.get()
    assert (job.faults, job.held_until) == (1, NOW + timedelta(seconds=60))
    cast.tell(gpu, 6)
    job.refresh_from_db()
    assert (job.faults, job.held_until) == (2, NOW + timedelta(seconds=120))


def test_a_job_that_turns_out_to_be_the_first_is_held_then(gpu):
    told = cast.data(gpu)
    cast.tell(gpu, 1, told | {"first": None})
    assert OfflineJob.objects.get().faults == 0
    cast.tell(gpu, 2, told)
    assert OfflineJob.objects.get().faults == 1


def test_a_job_that_was_blamed_before_another_was_named_is_let_go(gpu):
    told = cast.data(gpu, first_by="its own report")
    cast.tell(gpu, 1, told)
    cast.tell(gpu, 2, told | {"first": None})
    assert OfflineJob.objects.get().held_until is not None, "nobody else was named"
    cast.tell(gpu, 1, told)
    cast.tell(gpu, 3, told | {"first": cast.online(gpu), "others": [cast.offline(gpu)]})
    job = OfflineJob.objects.get()
    assert (job.faults, job.held_until) == (0, None)
    cast.tell(gpu, 4, told)
    job.refresh_from_db()
    assert job.faults == 1, "named again, and counted once"


def test_a_job_is_called_by_its_name_and_not_by_its_program(gpu):
    program = cast.offline(gpu) | {"name": "python"}
    fault = cast.tell(gpu, first=program, others=[program | {"pid": 4_022}])
    assert (fault.first["name"], fault.others[0]["name"]) == ("resnet-31", "resnet-31")


def test_a_node_accuses_no_job_and_no_service_of_another_node(gpu):
    elsewhere = cast.a_shared_gpu("node-18")
    fault = cast.tell(gpu, first=cast.offline(elsewhere), others=[cast.online(elsewhere)])
    assert (fault.job, fault.placement) == (None, None)
    assert not fault.services_hit.exists()
    assert not OfflineJob.objects.exclude(held_until=None).exists()


def test_a_node_cannot_go_on_with_another_nodes_story(gpu):
    fault = cast.tell(gpu)
    elsewhere = cast.a_shared_gpu("node-18")
    stolen = cast.data(elsewhere, fault.pk, why="mine now")
    services.agent_told(elsewhere.node, cast.report(elsewhere, 9, stolen), NOW)
    fault.refresh_from_db()
    assert (fault.gpu, fault.why) == (gpu, "client 4021 had an illegal access")
    assert OfflineJob.objects.filter(faults__gt=0).count() == 1


@pytest.mark.parametrize("fault_id", ["", "no UUID", None])
def test_a_fault_without_an_id_is_kept_as_an_event_with_the_reason(gpu, fault_id):
    told = cast.data(gpu) | {"fault_id": fault_id}
    assert persist(gpu.node, EventBatch((cast.report(gpu, 1, told),)), NOW) == 1
    assert "ValueError" in NodeEvent.objects.get().data["not_acted_on"]
    assert not Fault.objects.exists()


def test_a_fault_of_a_gpu_that_is_not_there_is_refused(gpu):
    report = cast.report(gpu, 1, cast.data(gpu))
    gpu.node.gpus.update(retired_at=NOW)
    with pytest.raises(ValueError, match="no GPU 0"):
        services.agent_told(gpu.node, report, NOW)


def test_the_story_that_an_agent_writes_is_the_one_that_is_read(gpu):
    """Both ends of the same event, with the agent's own hand on the pen."""
    guest, at, fault_id = cast.guest(gpu), NOW.timestamp(), str(uuid4())
    job = timeline.Victim(4_021, "offline", "python", str(guest.pk))
    service = timeline.Victim(911, "online", "search-rank")
    begun = timeline.begin(fault_id, gpu.uuid, at, "illegal access", {911: (service, at)})
    begun = msgspec.structs.replace(begun, first=job, first_by=timeline.BY_LOG, code=700)
    for seq, told in enumerate([begun, timeline.close(begun, at + 4.3)], start=1):
        over_the_wire = msgspec.json.decode(msgspec.json.encode(timeline.event(told)))
        cast.tell(gpu, seq, over_the_wire)
    fault = Fault.objects.get(pk=fault_id)
    assert (fault.job, fault.code, fault.first_by) == (guest.job, 700, timeline.BY_LOG)
    assert (fault.state, fault.recovered_s) == ("RECOVERED", 4.3)
    assert [one.name for one in fault.services_hit.all()] == ["search-rank"]
    assert [one["after_s"] for one in fault.moments] == [0.0, 4.3]


def test_events_replayed_by_the_agent_change_nothing(gpu):
    told = cast.data(gpu)
    batch = EventBatch((cast.report(gpu, 1, told), cast.report(gpu, 2, told)))
    persist(gpu.node, batch, NOW)
    gpu.node.acked_event_seq = 0
    persist(gpu.node, batch, NOW)
    assert Fault.objects.count() == 1
    assert OfflineJob.objects.get().faults == 1


def test_a_fault_told_hours_late_holds_nobody_any_more(gpu):
    cast.tell(gpu, told=cast.data(gpu), seq=1)
    job = OfflineJob.objects.get()
    assert not job.is_held(NOW + timedelta(hours=1))


def test_hostile_data_is_cut_and_stored(gpu):
    fault = cast.tell(
        gpu,
        why="w" * 5_000,
        code=1 << 70,
        first={"pid": -1, "side": "root", "name": 7, "placement_id": "x"},
        others=[{"pid": 10**12}] * 500 + ["nobody"],
        moments=[{"after_s": "now", "what": 1}, {"after_s": 1.0, "what": "m" * 5_000}],
        recovered_s=float("inf"),
        ended="yes",
    )
    assert (len(fault.why), fault.code, fault.recovered_s, fault.ended_at) == (
        300,
        None,
        None,
        None,
    )
    assert fault.first == {"pid": None, "side": "unknown", "name": "", "placement_id": None}
    assert [len(one["what"]) for one in fault.moments] == [300]


def test_pages_are_told(gpu, quiet_bells, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        fault = cast.tell(gpu, fault_id=uuid4())
    assert any('"faults"' in word and str(fault.pk) in word for word in quiet_bells)
