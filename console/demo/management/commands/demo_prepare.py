from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from console.demo import seed


class Command(BaseCommand):
    help = "Make the demo's database: tables, people, policies, cluster, credentials."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cluster", type=Path, help="cluster file that the fleet wrote")
        parser.add_argument("gpus", nargs="*", help="UUIDs of node 17's stand-in GPUs")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        call_command("collectstatic", verbosity=0, interactive=False)
        password = os.environ["MUXFLOW_DEMO_PASSWORD"]
        folder, now = settings.VAR_DIR, timezone.now()
        seed.everything(options["cluster"], folder, password, now, options["gpus"])
