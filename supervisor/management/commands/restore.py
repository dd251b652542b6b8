"""`manage.py restore FILE`: a site from a backup, on hold until `manage.py resume`."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from supervisor import refusals
from supervisor.backups import making, restoring
from supervisor.backups.archive import Archive, BackupError
from supervisor.preparation import database_at_hand


class Command(BaseCommand):
    help = "Restore a backup. The site then stays on hold: `manage.py resume` shows and starts what waits."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--replace", action="store_true", help="The present database holds data: replace it.")
        parser.add_argument("--check", action="store_true", help="Only restore into a scratch place and check.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["check"]:
                self.try_out(options["file"])
                return
            is_for_nobody = settings.EMBEDDED_POSTGRES and os.geteuid() == 0
            refusals.check_data_dir(settings.DATA_DIR, for_nobody=is_for_nobody)
            refusals.lock_data_directory(settings.DATA_DIR, "restore")
            with database_at_hand():
                manifest = restoring.restore(options["file"], replace=options["replace"])
        except (BackupError, refusals.Refusal) as error:
            raise CommandError(str(error))
        self.stdout.write(f"Restored {manifest.rows} rows and {len(manifest.files)} files of {manifest.made_at}.")
        self.stdout.write("The site is on hold: nothing runs, starts or is delivered until `manage.py resume`.")

    def try_out(self, path: Path) -> None:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
        with database_at_hand(), Archive(path) as archive, TemporaryDirectory(dir=settings.DATA_DIR) as room:
            restoring.require_known_migrations(archive.manifest)
            making.prove(archive, Path(room))
            manifest = archive.manifest
            self.stdout.write(f"Ok: {manifest.rows} rows, {len(manifest.files)} files, of Muster {manifest.version}.")
