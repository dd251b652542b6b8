"""Restores a backup. The copy starts on hold: what was under way at the backup would otherwise run a second time."""

import os
import tempfile
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.files.base import File
from django.core.management import call_command
from django.db import DatabaseError, connection, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from agents import storage
from agents.models import AuditEvent, SiteHold
from supervisor.preparation import STAMP

from . import making, postgresql, sqlite
from .archive import Archive, BackupError, Manifest

SCRATCH = "restored"  # the name of the SQLite database that is prepared beside the present one


def restore(path: Path, *, replace: bool = False) -> Manifest:
    """Check the archive, then restore files and database. An error leaves the present database as it was.

    `replace`: the present database may hold data; SQLite's is kept beside the new one. Raises BackupError.
    """
    with Archive(path) as archive, tempfile.TemporaryDirectory(dir=beside(), prefix=".restore-") as room:
        try:
            require_known_migrations(archive.manifest)
            archive.check()
            making.require_key(archive.manifest)
            if archive.manifest.vendor != connection.vendor:
                raise BackupError(f"The backup is of {archive.manifest.vendor}; this site uses {connection.vendor}.")
            restore_files(archive)
            restore_database(archive, Path(room), replace=replace)
        except (DatabaseError, OSError) as error:
            raise BackupError(f"The backup cannot be restored ({error}): nothing was changed.") from error
    (settings.DATA_DIR / STAMP).unlink(missing_ok=True)  # the next start prepares this database
    return archive.manifest


def beside() -> Path:
    """A directory on the file system to which the database belongs."""
    return Path(connection.settings_dict["NAME"]).parent if connection.vendor == "sqlite" else settings.DATA_DIR


def require_known_migrations(manifest: Manifest) -> None:
    migrations = MigrationLoader(None).disk_migrations
    newer = [f"{app}.{name}" for app, name in manifest.migrations if (app, name) not in migrations]
    if newer:
        raise BackupError(
            f"The backup is of a newer version (Muster {manifest.version}, with {newer[0]}): "
            "install that version first."
        )


def restore_files(archive: Archive) -> None:
    """Files come before the rows that name them, as everywhere."""
    store = storage.get_storage()
    for name in archive.manifest.files:
        with archive.member(f"files/{name}") as content:
            size = archive.manifest.members[f"files/{name}"]["bytes"]
            if store.exists(name) and store.size(name) == size:
                continue
            store.delete(name)
            if store.save(name, File(content)) != name:
                raise BackupError(f"The file {name} cannot be stored under its name.")


def restore_database(archive: Archive, room: Path, *, replace: bool) -> None:
    if connection.vendor == "sqlite":
        replace_file(sqlite.unpack_database(archive, room), archive.manifest, replace=replace)
    else:
        replace_rows(archive, room, replace=replace)


def hold_restored_site(manifest: Manifest, using: str = "default") -> None:
    made_at = datetime.fromisoformat(manifest.made_at)
    SiteHold.objects.using(using).all().delete()
    reason = f"restored from the backup of {made_at:%Y-%m-%d %H:%M:%S} UTC"
    SiteHold.objects.using(using).create(snapshot_at=made_at, reason=reason)
    AuditEvent.objects.using(using).create(
        action="backup.restored", subject_kind="site", subject_name=reason, source="restore"
    )


# -- SQLite


def replace_file(copy: Path, manifest: Manifest, *, replace: bool) -> None:
    """The copy is brought up to date and put on hold before it takes the place of the present file."""
    present = Path(connection.settings_dict["NAME"])
    if present.exists() and holds_data() and not replace:
        raise BackupError(f"{present} holds data: give --replace, which keeps it beside the restored one.")
    connection.close()
    prepare_copy(copy, manifest)
    if present.exists():
        kept = present.with_name(f"{present.name}.before-{timezone.now():%Y%m%d-%H%M%S}")
        for end in ("-wal", ""):
            beside = present.with_name(present.name + end)
            if beside.exists():
                os.link(beside, kept.with_name(kept.name + end))
    copy.chmod(0o600)
    present.with_name(present.name + "-wal").unlink(missing_ok=True)
    present.with_name(present.name + "-shm").unlink(missing_ok=True)
    copy.replace(present)


def prepare_copy(copy: Path, manifest: Manifest) -> None:
    connections.databases[SCRATCH] = {**connection.settings_dict, "NAME": str(copy)}
    try:
        call_command("migrate", database=SCRATCH, verbosity=0, interactive=False)
        hold_restored_site(manifest, using=SCRATCH)
        with connections[SCRATCH].cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=DELETE")
    finally:
        connections[SCRATCH].close()
        del connections[SCRATCH], connections.databases[SCRATCH]


def holds_data() -> bool:
    """People are there: somebody has used this site."""
    user = get_user_model()
    return user._meta.db_table in connection.introspection.table_names() and user._default_manager.exists()


# -- PostgreSQL


def replace_rows(archive: Archive, room: Path, *, replace: bool) -> None:
    """The tables as the backup knows them, then its rows in one transaction, then what newer versions added."""
    if busy := postgresql.others():
        raise BackupError(f"{busy} other sessions use this database: stop web servers, workers and poolers first.")
    is_used = holds_data()
    if is_used and not replace:
        raise BackupError("This database holds data: give --replace, which deletes it, or restore into an empty one.")
    if not is_used:
        postgresql.make_tables(archive.manifest)
    with transaction.atomic():
        postgresql.restore_tables(archive, room)
        hold_restored_site(archive.manifest)
    call_command("migrate", verbosity=0, interactive=False)
