"""PostgreSQL: COPY of every table in one snapshot, so that no program of PostgreSQL's own version is needed."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection, transaction

from .archive import CHUNK, Archive, BackupError, Manifest, add_packed

OURS_TO_MAKE = "django_migrations"  # written by the migrations of the site that restores
SCRATCH_SCHEMA = "muster_backup_check"


def dump(tar: tarfile.TarFile, manifest: Manifest, scratch: Path) -> None:
    """Store every table as of one moment. Only reads, and locks nothing that writers need."""
    with snapshot() as cursor:
        for table in table_names():
            columns = list_columns(cursor, table)
            plain = scratch / "table"
            with plain.open("wb") as target, cursor.copy(f"COPY {quote_columns(table, columns)} TO STDOUT") as rows:
                for data in rows:
                    target.write(data)
            manifest.tables[table] = {"rows": cursor.rowcount, "columns": columns}
            add_packed(tar, manifest, f"tables/{table}", plain)
            plain.unlink()


@contextmanager
def snapshot() -> Iterator[Any]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        take_time(cursor)
        yield cursor


def take_time(cursor: Any) -> None:
    """The transaction rests while a large table is packed or unpacked."""
    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def table_names() -> list[str]:
    with connection.cursor() as cursor:
        return sorted(table.name for table in connection.introspection.get_table_list(cursor) if table.type in "tp")


def list_columns(cursor: Any, table: str) -> list[str]:
    return sorted(column.name for column in connection.introspection.get_table_description(cursor, table))


def quote_columns(table: str, columns: list[str]) -> str:
    quote = connection.ops.quote_name
    return f"{quote(table)} ({', '.join(map(quote, columns))})"


def check(archive: Archive, scratch: Path) -> None:
    """Restore every table into a temporary one with the same columns, checks and unique keys; nothing stays."""
    with tables_of(archive.manifest), transaction.atomic(), connection.cursor() as cursor:
        take_time(cursor)
        for table, facts in tables(archive):
            scratch_table = f"check_{table}"[:63]
            of = f"LIKE {connection.ops.quote_name(table)} INCLUDING CONSTRAINTS INCLUDING INDEXES"
            cursor.execute(f"CREATE TEMPORARY TABLE {connection.ops.quote_name(scratch_table)} ({of}) ON COMMIT DROP")
            restore_table(archive, scratch, cursor, table, facts, into=scratch_table)
        transaction.set_rollback(True)


@contextmanager
def tables_of(manifest: Manifest) -> Iterator[None]:
    """The tables that a backup fits: those of this site, or on a machine without a site new ones in a schema that is
    dropped afterwards.
    """
    has_tables = set(manifest.tables) <= {*table_names(), OURS_TO_MAKE}
    if has_tables:
        yield
        return
    with connection.cursor() as cursor:
        # A check that was killed leaves its schema.
        cursor.execute(f"DROP SCHEMA IF EXISTS {SCRATCH_SCHEMA} CASCADE")
        cursor.execute(f"CREATE SCHEMA {SCRATCH_SCHEMA}")
        cursor.execute(f"SET search_path TO {SCRATCH_SCHEMA}")
        try:
            make_tables(manifest)
            yield
        finally:
            cursor.execute("RESET search_path")
            cursor.execute(f"DROP SCHEMA {SCRATCH_SCHEMA} CASCADE")


def make_tables(manifest: Manifest) -> None:
    """Empty tables as they were when the backup was made."""
    for app, name in manifest.latest_migrations:
        call_command("migrate", app, name, verbosity=0, interactive=False)


def tables(archive: Archive) -> list[tuple[str, dict[str, Any]]]:
    return [(name, facts) for name, facts in archive.manifest.tables.items() if name != OURS_TO_MAKE]


def restore_table(
    archive: Archive, scratch: Path, cursor: Any, table: str, facts: dict[str, Any], *, into: str
) -> None:
    """The rows of one table. Raises BackupError if they are not as many as were stored."""
    plain = scratch / "table"
    archive.unpack(f"tables/{table}", plain)
    with plain.open("rb") as source, cursor.copy(f"COPY {quote_columns(into, facts['columns'])} FROM STDIN") as rows:
        while data := source.read(CHUNK):
            rows.write(data)
    plain.unlink()
    if cursor.rowcount != facts["rows"]:
        raise BackupError(f"{table} has {cursor.rowcount} rows instead of {facts['rows']}: use another backup.")


def restore_tables(archive: Archive, scratch: Path) -> None:
    """Replace the rows of every table. Must be called in a transaction; references are checked when it commits."""
    with connection.cursor() as cursor:
        take_time(cursor)
        require_tables(archive, cursor)
        names = ", ".join(connection.ops.quote_name(name) for name in table_names() if name != OURS_TO_MAKE)
        cursor.execute(f"TRUNCATE {names}")
        for table, facts in tables(archive):
            restore_table(archive, scratch, cursor, table, facts, into=table)
        for statement in connection.ops.sequence_reset_sql(no_style(), apps.get_models(include_auto_created=True)):
            cursor.execute(statement)


def require_tables(archive: Archive, cursor: Any) -> None:
    """A table or column that this version lacks would be lost."""
    here = set(table_names())
    for table, facts in tables(archive):
        if table not in here or set(facts["columns"]) != set(list_columns(cursor, table)):
            raise BackupError(
                f"The backup's table {table} is not as this version knows it: restore it with the version that "
                "made it, then upgrade."
            )


def others() -> int:
    """How many other sessions use this database."""
    query = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])
