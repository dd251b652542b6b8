"""Deletes old history now; a worker does the same every day."""

from typing import Any

from django.core.management.base import BaseCommand

from runs.worker import pruning


class Command(BaseCommand):
    help = "Delete history older than settings.KEEP_DAYS, in batches."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only count.")

    def handle(self, *args: Any, **options: Any) -> None:
        for kind, count in pruning.prune(dry_run=options["dry_run"]).items():
            self.stdout.write(f"{kind:12} {count}")
