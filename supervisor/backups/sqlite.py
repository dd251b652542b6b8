"""SQLite: the online backup API copies one state of the database while others write."""

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db import connection

from .archive import Archive, BackupError, Manifest, add_packed

MEMBER = "database.sqlite3"


def dump(tar: tarfile.TarFile, manifest: Manifest, scratch: Path) -> None:
    """Store the whole database. All pages in one step: writers are not held up, the copy is of one moment."""
    copy = scratch / "copy"
    present = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(present, timeout=60)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        manifest.tables = describe_tables(target)
    add_packed(tar, manifest, MEMBER, copy)
    copy.unlink()


def unpack_database(archive: Archive, scratch: Path) -> Path:
    """The database of the archive as a file, checked: its integrity, its references, its rows."""
    copy = scratch / "restored"
    archive.unpack(MEMBER, copy)
    with closing(sqlite3.connect(copy)) as line:
        problems = [row[0] for row in line.execute("PRAGMA integrity_check(5)") if row[0] != "ok"]
        problems += [f"a row of {row[0]} refers to nothing" for row in line.execute("PRAGMA foreign_key_check")][:5]
        tables = describe_tables(line)
    if problems or tables != archive.manifest.tables:
        raise BackupError(f"The database in the backup is damaged: {'; '.join(problems) or 'rows are missing'}.")
    return copy


def describe_tables(line: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """name → {"rows", "columns"}."""
    names = [name for (name,) in line.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return {
        name: {
            "rows": line.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0],  # noqa: S608  (its own tables)
            "columns": [row[1] for row in line.execute(f'PRAGMA table_info("{name}")')],
        }
        for name in names
        if not name.startswith("sqlite_")
    }
