"""Makes a backup of the running site: the database as of one moment, then the files that it names."""

import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from agents import storage
from agents.fields import decrypt, encrypt
from agents.models import AuditEvent, StoredFile
from plumbing import clock

from . import postgresql, sqlite
from .archive import Archive, BackupError, Manifest, add_member, close_archive, new_file

WORD = "muster"  # encrypted in the manifest: tells at once whether the field key fits
BATCH = 500
Said = Callable[[str], Any]


def make(path: Path, say: Said = print) -> Manifest:
    """Write the backup, then read it again and restore it into a scratch place. Raises BackupError."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".backup-") as room:
        scratch = Path(room)
        try:
            with new_file(path) as target, tarfile.open(fileobj=target, mode="w:") as tar:
                manifest = write_backup(tar, scratch)
            say(f"{path}: {manifest.rows} rows, {len(manifest.files)} files. Checking it …")
            with Archive(path) as archive:
                prove(archive, scratch)
        except DatabaseError as error:
            raise BackupError(f"The database did not answer ({error}): start it and try again.") from error
    record_backup(path, manifest)
    return manifest


def write_backup(tar: tarfile.TarFile, scratch: Path) -> Manifest:
    applied = sorted(MigrationRecorder(connection).applied_migrations())
    manifest = Manifest(
        made_at=clock.now().isoformat(),
        vendor=connection.vendor,
        migrations=[list(name) for name in applied],
        key_check=encrypt(WORD),
    )
    choose_database_module().dump(tar, manifest, scratch)
    for name in stored_names():
        add_stored_file(tar, manifest, name)
    close_archive(tar, manifest)
    return manifest


def choose_database_module() -> Any:
    """The module that knows the database in use."""
    return sqlite if connection.vendor == "sqlite" else postgresql


def stored_names() -> Iterable[str]:
    """Of files that have a row now. One that came after the snapshot does no harm."""
    return StoredFile.objects.order_by("stored").values_list("stored", flat=True).distinct().iterator(BATCH)


def add_stored_file(tar: tarfile.TarFile, manifest: Manifest, name: str) -> None:
    """A file that is deleted at this moment is listed instead."""
    try:
        with storage.get_storage().open(name) as content:
            add_member(tar, manifest, f"files/{name}", content, storage.get_storage().size(name))
    except FileNotFoundError:
        manifest.gone.append(name)


def prove(archive: Archive, scratch: Path) -> None:
    """Checksums, the key, and the database restored into a scratch place. Raises BackupError."""
    archive.check()
    require_key(archive.manifest)
    if archive.manifest.vendor != connection.vendor:
        raise BackupError(f"The backup is of {archive.manifest.vendor}; this site uses {connection.vendor}.")
    if connection.vendor == "sqlite":
        sqlite.unpack_database(archive, scratch).unlink()
    else:
        postgresql.check(archive, scratch)


def require_key(manifest: Manifest) -> None:
    try:
        decrypt(manifest.key_check)
    except Exception as error:
        raise BackupError(
            "The secrets in this backup are encrypted with another key: set MUSTER_FIELD_KEYS to the keys of the site "
            "that made it."
        ) from error


def record_backup(path: Path, manifest: Manifest) -> None:
    """One line in the audit log, from which `doctor` knows the age of the latest backup."""
    size = path.stat().st_size
    AuditEvent.objects.create(
        action="backup.made",
        subject_kind="site",
        subject_name=str(path)[:200],
        source="backup",
        details={"bytes": size, "rows": manifest.rows, "files": len(manifest.files), "made_at": manifest.made_at},
    )
