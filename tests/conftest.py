"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile("default")


def pytest_configure() -> None:
    """The hash of a password is slow on purpose: a third of a second for each person of a test."""
    django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "REDIS_URL" in os.environ and "DATABASE_URL" in os.environ:
        return
    unserved = pytest.mark.skip(reason="services: run `make test`, or set DATABASE_URL, REDIS_URL")
    for item in items:
        if item.get_closest_marker("integration"):
            item.add_marker(unserved)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """The test database is a copy of the one that the run migrated, where there is one."""
    of_tests = django_settings.DATABASES["default"].setdefault("TEST", {})
    of_tests["TEMPLATE"] = os.environ.get("MUXFLOW_TEST_TEMPLATE")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The public measurements and traces that MUXFLOW_DATA names; not part of this repository."""
    if "MUXFLOW_DATA" not in os.environ:
        pytest.skip("data: set MUXFLOW_DATA to the folder of the public traces")
    return Path(os.environ["MUXFLOW_DATA"])


@pytest.fixture(autouse=True)
def static_files(settings: Settings) -> None:
    """Static files under their plain names, so that no page test needs them collected first."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
