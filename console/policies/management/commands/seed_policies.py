"""Make the policies that a new console begins with. Safe to run again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from console.policies import services
from console.policies.models import Policy, PolicyVersion


class Command(BaseCommand):
    help = "Make the policies Conservative, Balanced and Aggressive where they are missing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="short waits, to be watched")

    def handle(self, *args: Any, demo: bool, **options: Any) -> None:
        services.ensure_defaults(timezone.now(), demo)
        self.stdout.write(f"Policies: {', '.join(str(version) for version in _current())}")


def _current() -> list[PolicyVersion]:
    ids = Policy.objects.exclude(current=None).values("current")
    return list(PolicyVersion.objects.select_related("policy").filter(pk__in=ids))
