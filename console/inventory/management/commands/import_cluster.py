"""`manage.py import_cluster FILE`: bring a cluster in. Formats: docs/import.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from console.audit.services import system
from console.errors import MuxFlowError
from console.inventory import imports


class Command(BaseCommand):
    help = "Import nodes, services and jobs from a cluster file or a folder of CSV files."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path, help="a JSON or YAML file, or a folder of CSV files")
        parser.add_argument("--format", choices=imports.FORMATS, default="muxflow")
        parser.add_argument(
            "--seed", type=int, default=imports.DEFAULT_SEED, help="of the placement of openb pods"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = imports.import_path(
                options["path"],
                options["format"],
                actor=system("import"),
                now=timezone.now(),
                seed=options["seed"],
            )
        except MuxFlowError as error:
            raise CommandError(str(error)) from error
        for kind, count in report.written.items():
            self.stdout.write(f"{count:>7,} {kind}")
        for reason, count in sorted(report.skipped.items(), key=lambda item: -item[1]):
            self.stdout.write(f"{count:>7,} skipped: {reason}")
