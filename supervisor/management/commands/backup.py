"""`manage.py backup FILE`: the running site in one archive, checked."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from supervisor.backups import making
from supervisor.backups.archive import BackupError
from supervisor.preparation import database_at_hand

KEYS = "The backup contains no key. Keep MUSTER_FIELD_KEYS apart from it{where}: without it stored secrets are lost."


class Command(BaseCommand):
    help = "Write the database and the stored files to one archive while the site runs, and check the archive."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="Where to write it; an existing file is replaced.")

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"].absolute()
        try:
            with database_at_hand():
                manifest = making.make(path, self.stdout.write)
        except BackupError as error:
            raise CommandError(str(error))
        for name in manifest.gone:
            self.stdout.write(f"The file {name} was deleted meanwhile and is not in the backup.")
        self.stdout.write(f"Ok: {path.stat().st_size >> 10} kB, checksums hold, restored into a scratch place.")
        kept = settings.DATA_DIR / "secrets" / "muster_field_keys"
        self.stdout.write(KEYS.format(where=f" (it is in {kept})" if kept.exists() else ""))
