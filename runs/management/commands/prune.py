"""Deletes old history now; a worker does the same every day."""

import shutil
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from runs.worker import pruning

FULL = (
    "PostgreSQL uses this room for new rows. To give it back to the disk, stop Muster and run VACUUM FULL in psql: "
    "it locks each table while it writes it anew, and needs as much free room as the largest table."
)


class Command(BaseCommand):
    help = "Delete history older than settings.KEEP_DAYS, in batches."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only count.")
        parser.add_argument(
            "--compact", action="store_true", help="Then give the room back to the disk: others wait with their writes."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for kind, count in pruning.prune(dry_run=options["dry_run"]).items():
            self.stdout.write(f"{kind:14} {count}")
        if options["compact"] and not options["dry_run"]:
            self.compact()

    def compact(self) -> None:
        if connection.vendor == "sqlite":
            self.compact_sqlite(Path(str(connection.settings_dict["NAME"])))
            return
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")
        self.stdout.write(FULL)

    def compact_sqlite(self, file: Path) -> None:
        """Write the database anew without what was deleted. Raises CommandError if there is no room for the copy."""
        before = file.stat().st_size
        free = shutil.disk_usage(file.parent).free
        # The new content goes through the write-ahead log: twice the size at the worst.
        if free < 2 * before:
            raise CommandError(f"{file.parent} has {free >> 20} MB free; compacting needs {2 * before >> 20} MB.")
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        after = file.stat().st_size
        self.stdout.write(f"{file}: {before >> 10} kB, now {after >> 10} kB")
