"""What is marked as never to be shared."""

from __future__ import annotations

import pytest
from django.test import Client
from rest_framework.test import APIClient

from console.accounts.models import Role
from console.audit.services import system
from console.errors import SomebodyWasFirst
from console.inventory import never_share, sharing
from console.inventory.models import Gpu
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_gpu, a_node
from tests.console.workloads.cast import a_service

pytestmark = pytest.mark.django_db

BY = system("test")


@pytest.fixture
def gpu():
    return a_gpu(a_node(source="agent"))


def test_each_can_be_marked_and_freed_once(gpu):
    for target in (gpu, gpu.node, a_service(gpu)):
        never_share.forbid(target, BY, "its owner asked", NOW)
        with pytest.raises(SomebodyWasFirst):
            never_share.forbid(target, BY, "", NOW)
        target.refresh_from_db()
        assert target.never_share
        never_share.allow(target, BY, "", NOW)
        target.refresh_from_db()
        assert not target.never_share


def test_it_is_a_fact_that_forbids_sharing(gpu):
    never_share.forbid(gpu.node, BY, "", NOW)
    fresh = Gpu.objects.select_related("node__pool").get(pk=gpu.pk)
    assert sharing.forbidding_fact(fresh) == "its node is marked as never to be shared"
    never_share.forbid(gpu, BY, "", NOW)
    fresh = Gpu.objects.select_related("node__pool").get(pk=gpu.pk)
    assert sharing.forbidding_fact(fresh) == "marked as never to be shared"


def test_operators_mark_on_pages_and_over_rest_and_viewers_do_not(gpu):
    service = a_service(gpu)
    pages = (
        f"/gpus/{gpu.pk}/never-share/",
        f"/nodes/{gpu.node.name}/never-share/",
        f"/services/{service.pk}/never-share/",
    )
    paths = (
        f"/api/v1/gpus/{gpu.pk}/allow_sharing/",
        f"/api/v1/nodes/{gpu.node.name}/allow_sharing/",
        f"/api/v1/services/{service.pk}/allow_sharing/",
    )
    for name, role, page_code, rest_code in (
        ("vic", Role.VIEWER, 403, 403),
        ("ann", Role.OPERATOR, 302, 200),
    ):
        user = a_user(name, role)
        browser, api = Client(), APIClient()
        browser.force_login(user)
        api.force_authenticate(user)
        assert {browser.post(page, {"never": "1"}).status_code for page in pages} == {page_code}
        assert {api.post(path, {}, format="json").status_code for path in paths} == {rest_code}
