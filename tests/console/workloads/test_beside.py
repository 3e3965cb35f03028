"""The card of a service that tells what a neighbour did to it, read from the history."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from django.urls import reverse

from console.accounts.models import Role
from console.history import writing
from console.workloads import views
from tests.console.history.cast import samples
from tests.console.telemetry.cast import node, person, pool, service

pytestmark = pytest.mark.django_db


def test_the_card_says_not_enough_data_and_what_it_takes(client, django_assert_max_num_queries):
    gpu = node().gpus.get(index=0)
    rank = service(gpu)
    start = int(time.time()) // 60 * 60 - 1_200
    rows = samples([gpu.pk], start, 600, online_qps=50.0, offline_processes=1.0)
    writing.store(rows.take(np.arange(600)), 1)
    client.force_login(person(role=Role.VIEWER))
    with django_assert_max_num_queries(25):
        answer = client.get(reverse("service_beside", args=[rank.pk]))
    assert b"Not enough data" in answer.content
    assert b"1 of 1 instance" in answer.content


def test_a_service_out_of_sight_is_not_found(client):
    rank = service(node().gpus.get(index=0))
    client.force_login(person(role=Role.VIEWER, pool=pool("elsewhere")))
    assert client.get(reverse("service_beside", args=[rank.pk])).status_code == 404


def test_the_page_of_a_gpu_says_what_is_known_at_the_load_of_now(client, monkeypatch):
    gpu = node().gpus.get(index=0)
    service(gpu)
    start = int(time.time()) // 60 * 60 - 1_200
    rows = samples([gpu.pk], start, 600, online_qps=50.0, offline_processes=1.0)
    writing.store(rows.take(np.arange(600)), 1)
    client.force_login(person(role=Role.VIEWER))
    address = reverse("gpu_beside", args=[gpu.pk])
    assert "no load is known now" in client.get(address).content.decode()
    heard = SimpleNamespace(is_live=True, online_qps=49.0)
    monkeypatch.setattr(views, "live_of", lambda gpu_id: heard)
    told = client.get(address).content.decode()
    assert "not enough data, n 2 with and 0 without one, needs 8 of each" in told
    heard.online_qps = 900.0
    assert "nothing is known at the load of now" in client.get(address).content.decode()


def test_a_gpu_out_of_sight_is_not_found(client):
    gpu = node().gpus.get(index=0)
    client.force_login(person(role=Role.VIEWER, pool=pool("elsewhere")))
    assert client.get(reverse("gpu_beside", args=[gpu.pk])).status_code == 404
