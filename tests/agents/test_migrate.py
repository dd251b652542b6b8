"""An empty database gets its tables at once; they are those that the migrations make one after the other."""

import re

import pytest
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations import RunPython, RunSQL
from django.db.migrations.recorder import MigrationRecorder

OTHER = "made_by_migrations"
# What an empty database does without: these change rows, and there are none.
CHANGE_ROWS = {
    ("auth", "0011_update_proxy_permissions"),
    ("contenttypes", "0002_remove_content_type_name"),
    ("oauth2_provider", "0006_alter_application_client_secret"),
    ("oauth2_provider", "0012_add_token_checksum"),
    ("oauth2_provider", "0015_refreshtoken_token_checksum"),
    ("oauth2_provider", "0019_application_registration_source"),
}
IN_POSTGRESQL = (
    """SELECT table_name, column_name, data_type, udt_name, character_maximum_length, is_nullable, column_default,
        is_identity, generation_expression, collation_name FROM information_schema.columns WHERE table_schema = 'public'""",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace""",
)
# PostgreSQL names a unique column's constraint in one way, Django in another; it looks for them by their columns.
NAME_OF_UNIQUE = re.compile(r"_(key|[0-9a-f]{8}_uniq)\b")
CONSTRAINT = re.compile(r"CONSTRAINT .*?(?=, CONSTRAINT|$)", re.DOTALL)


@pytest.fixture
def other_database(tmp_path, transactional_db):
    """An empty one beside that of the tests."""
    other = connection.copy(OTHER)
    if other.vendor == "sqlite":
        other.settings_dict["NAME"] = str(tmp_path / "other.sqlite3")
    else:
        other.settings_dict["NAME"] = OTHER
        other.settings_dict["OPTIONS"].pop("pool", None)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {OTHER}")
    connections[OTHER] = other
    yield other
    other.close()
    del connections[OTHER]
    if other.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {OTHER}")


def describe(database):
    """Its tables, columns, indexes and constraints, whatever the order of the columns."""
    with database.cursor() as cursor:
        if database.vendor == "sqlite":
            return describe_sqlite(cursor)
        parts = set()
        for question in IN_POSTGRESQL:
            cursor.execute(question)
            for row in cursor.fetchall():
                parts.add(tuple(NAME_OF_UNIQUE.sub("_unique", str(value)) for value in row))
    return parts


def describe_sqlite(cursor):
    cursor.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    rows = cursor.fetchall()
    parts = {row for row in rows if row[0] != "table"}
    for kind, table, _, sql in rows:
        if kind == "table":
            parts.update((table, constraint) for constraint in CONSTRAINT.findall(sql))
            for pragma in ("table_xinfo", "foreign_key_list", "index_list"):
                cursor.execute(f"PRAGMA {pragma}('{table}')")
                parts.update((table, pragma, *row[1 if pragma == "table_xinfo" else 2 :]) for row in cursor.fetchall())
    return parts


def test_tables_that_are_made_at_once_are_those_that_migrations_make(other_database):
    call_command(migrate.Command(), database=OTHER, verbosity=0)
    one_by_one, at_once = describe(other_database), describe(connection)
    assert (at_once - one_by_one, one_by_one - at_once) == (set(), set())
    recorded_at_once = MigrationRecorder(connection).applied_migrations()
    assert recorded_at_once.keys() == MigrationRecorder(other_database).applied_migrations().keys()


@pytest.mark.django_db
def test_a_migration_that_does_more_than_make_tables_is_one_that_an_empty_database_can_do_without():
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    assert len(plan) > len(CHANGE_ROWS)
    do_more = {
        (migration.app_label, migration.name)
        for migration, _ in plan
        if any(isinstance(operation, RunPython | RunSQL) for operation in migration.operations)
    }
    assert do_more == CHANGE_ROWS
