"""Faults and what follows from them, tried in a browser."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from agents.wire.names import EndReason
from console.accounts.models import Role
from console.audit.services import system
from console.policies import services as policies
from console.scheduling import jobs
from console.workloads import holds
from tests.browser.people import sign_in
from tests.browsing import check_for_everybody
from tests.console.accounts.cast import a_user
from tests.console.faults import cast
from tests.console.workloads.cast import a_job, placed

MOMENTS = [
    {"after_s": 0.0, "what": "client 4021 had an illegal access; the server is at fault"},
    {"after_s": 0.041, "what": "offline clients ended"},
    {"after_s": 1.207, "what": "the restart hook of search-rank was called"},
    {"after_s": 2.98, "what": "the server is active again"},
    {"after_s": 4.31, "what": "every online process is a healthy client again"},
]


@pytest.fixture
def scene(page, live_url):
    """A GPU with a fault behind it, the job that was first held, and another guest."""
    policies.ensure_defaults(timezone.now(), demo=False)
    gpu = cast.a_shared_gpu()
    guest, now = cast.guest(gpu), timezone.now()
    told = cast.data(gpu)
    fault = cast.tell(gpu, 1, told | {"moments": MOMENTS[:2]}, now=now)
    jobs.end(guest, EndReason.EVICTED, now)
    holds.hold(guest.job_id, system("test"), now, now, cause_id=fault.pk)
    said = ["A process of it left xCUDA after its start."]
    placed(gpu, a_job("vit-b16-04"), xcuda_processes=1, cuda_processes=2, remarks=said)
    sign_in(page, a_user("ortega", Role.OPERATOR), live_url)
    return page, fault, told


def addresses(fault) -> dict[str, str]:
    return {
        "fault": f"/faults/{fault.pk}/",
        "fault-gpu": f"/gpus/{fault.gpu_id}/",
        "fault-node": f"/nodes/{fault.gpu.node.name}/",
        "fault-job": f"/jobs/{fault.job_id}/",
        "fault-service": f"/services/{fault.services_hit.get().pk}/",
        "held-jobs": "/jobs/",
        "lift-hold": f"/jobs/{fault.job_id}/lift-hold/",
    }


def test_the_page_of_a_fault_follows_its_story(scene):
    page, fault, told = scene
    page.goto(addresses(fault)["fault"])
    expect(page.get_by_text("Recovering", exact=True)).to_be_visible()
    over = told | {"moments": MOMENTS, "recovered_s": 4.31, "ended": True}
    cast.tell(fault.gpu, 2, over, now=timezone.now())
    expect(page.get_by_text("Online is back", exact=True)).to_be_visible()
    expect(page.get_by_text("the server is active again")).to_be_visible()


def test_an_operator_lifts_a_hold(scene):
    page, fault, _ = scene
    page.goto(addresses(fault)["fault-job"])
    expect(page.get_by_role("status").filter(has_text="Held until")).to_be_visible()
    page.get_by_role("link", name="Lift the hold…").click()
    page.get_by_text("Its fault is mended").click()
    page.get_by_role("button", name="Lift the hold").click()
    expect(page.get_by_text("is no longer held")).to_be_visible()
    fault.job.refresh_from_db()
    assert fault.job.held_until is None


def test_the_pages_around_a_fault_are_for_everybody(scene):
    page, fault, told = scene
    over = told | {"moments": MOMENTS, "recovered_s": 4.31, "ended": True}
    cast.tell(fault.gpu, 2, over, now=timezone.now())
    for address in addresses(fault).values():
        page.goto(address, wait_until="networkidle")
        check_for_everybody(page)
