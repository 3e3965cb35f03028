from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.demo.launcher import CannotStart, Launcher


class Command(BaseCommand):
    help = "Run the whole product here with simulated GPUs; Ctrl-C stops all of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=int(os.environ.get("PORT") or 8000))
        parser.add_argument("--no-story", action="store_true", help="nothing happens by itself")

    def handle(self, *args: Any, **options: Any) -> None:
        story = not options["no_story"] and os.environ.get("DEMO_STORY", "on") != "off"
        folder = Path(os.environ.get("MUXFLOW_DEMO_DIR") or settings.BASE_DIR / "var/demo")
        try:
            Launcher(settings.BASE_DIR, folder.resolve(), options["port"], story).run()
        except CannotStart as error:
            raise CommandError(str(error)) from None
