"""Django's `migrate`, which makes the tables of an empty database at once."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

PARTIAL = ("app_label", "fake", "fake_initial", "plan", "check_unapplied", "prune")


class Command(migrate.Command):
    help = "Apply the migrations that the database lacks. An empty database gets its tables at once."

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        is_partial = any(options.get(name) for name in PARTIAL)
        if not is_partial and not connection.introspection.table_names():
            make_tables_at_once(connection)
        super().handle(*args, **options)


def make_tables_at_once(connection: BaseDatabaseWrapper) -> None:
    """Make the tables as the last migrations leave them, and record every migration as applied.

    One after the other, migrations take ten times as long: Django builds the models anew for each operation. Those
    that change rows are left out, as there are none: rows that every site has are made by `init_db`.
    """
    executor = MigrationExecutor(connection)
    final_state = executor.loader.project_state()
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    with connection.schema_editor() as editor:
        for model in final_state.apps.get_models():
            if model._meta.can_migrate(connection) and router.allow_migrate_model(connection.alias, model):
                editor.create_model(model)
        executor.recorder.ensure_schema()
        for migration, _ in plan:
            # As Django does: of one that stands for others, those.
            for app, name in migration.replaces or [(migration.app_label, migration.name)]:
                executor.recorder.record_applied(app, name)
