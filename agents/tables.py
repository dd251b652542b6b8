"""Whether the tables of the database are those that this code's models describe.

Before the first release a changed model changes the first migration of its app (docs/adr/0034). A database that
was made earlier then has applied every migration by its name, and still lacks columns.
"""

from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import connection, models
from django.db.migrations.exceptions import InconsistentMigrationHistory
from django.db.migrations.executor import MigrationExecutor

# Table → column → whether a new row must name it.
Columns = dict[str, dict[str, bool]]
IN_SQLITE = """
    SELECT t.name, c.name, c."notnull" AND c.dflt_value IS NULL AND NOT c.hidden
    FROM sqlite_master t JOIN pragma_table_xinfo(t.name) c WHERE t.type = 'table'"""
IN_POSTGRESQL = """
    SELECT table_name, column_name,
           is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO' AND is_generated = 'NEVER'
    FROM information_schema.columns WHERE table_schema = ANY(current_schemas(false))"""


def list_waiting_migrations() -> list[str]:
    """The migrations of this code that the database has not applied, as "agents.0002_more"."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def differences() -> list[str]:
    """The differences, as parts of a sentence, in the tables of apps whose migrations are all applied."""
    try:
        MigrationExecutor(connection).loader.check_consistent_history(connection)
    except InconsistentMigrationHistory:
        return ["its migrations were applied in another order"]
    unready_apps = {name.partition(".")[0] for name in list_waiting_migrations()}
    columns = columns_of_database()
    parts: list[str] = []
    for model in apps.get_models(include_auto_created=True):
        has_own_table = model._meta.managed and not model._meta.proxy
        if has_own_table and model._meta.app_label not in unready_apps:
            parts += find_differences(model, columns)
    return parts


def find_differences(model: type[models.Model], columns: Columns) -> Iterator[str]:
    """A column that only the database has matters if a new row has to name it: this code does not."""
    table = model._meta.db_table
    expected_columns = {field.column for field in model._meta.local_concrete_fields if field.column}
    if table not in columns:
        yield f"there is no table {table}"
        return
    for name in sorted(expected_columns - columns[table].keys()):
        yield f"{table} has no column {name}"
    for name, is_required in columns[table].items():
        if is_required and name not in expected_columns:
            yield f"{table} has a column {name} that must be filled"


def columns_of_database() -> Columns:
    columns: Columns = {}
    with connection.cursor() as cursor:
        cursor.execute(IN_SQLITE if connection.vendor == "sqlite" else IN_POSTGRESQL)
        for table, column, is_required in cursor.fetchall():
            columns.setdefault(table, {})[column] = bool(is_required)
    return columns


def explain_table_problem() -> str:
    """Why this code cannot use the database, and what to do; empty if it can."""
    parts = differences()
    if not parts:
        return ""
    return f"{problem(parts)} {way_out()}"


def problem(parts: list[str]) -> str:
    first, *others = parts
    more = f", and {len(others)} more differences" if others else ""
    return (
        f"The database {describe_database_place()} was made by another version of Muster ({first}{more}), "
        "and cannot be converted before the first release."
    )


def way_out() -> str:
    if is_in_data_dir():
        return (
            "Start with a new folder, `MUSTER_DATA_DIR=var/new make run`, or with the version that made it. "
            "That version can write your agents and functions to a file: `manage.py export_definitions`."
        )
    return "Create an empty database and name it in DATABASE_URL, or start the version that made it."


def describe_database_place() -> str:
    """Where the database is, for the message."""
    if is_in_data_dir():
        return f"in {settings.DATA_DIR}"
    database = connection.settings_dict
    name = str(database["NAME"])
    host = database.get("HOST")
    return f"{name} on {host}" if host else name


def is_in_data_dir() -> bool:
    if connection.vendor == "sqlite":
        file = Path(str(connection.settings_dict["NAME"]))
        return file.parent == settings.DATA_DIR
    return bool(settings.EMBEDDED_POSTGRES)
