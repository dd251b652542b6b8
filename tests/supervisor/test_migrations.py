"""Old and new workers work side by side: a migration after the first of its app only adds (ADR 34)."""

import pytest
from django.db import models
from django.db.migrations import Migration, operations
from django.db.migrations.loader import MigrationLoader

OURS = ("agents", "connectors", "devices", "functions", "knowledge", "runs")
ADDS = (operations.CreateModel, operations.AddIndex, operations.AlterModelOptions, operations.AlterModelManagers)
# Columns and tables that no supported release uses any more: (app, migration) → the release that used them last.
REMOVALS: dict[tuple[str, str], str] = {}


def refusal_of(operation) -> str:
    """Why an old worker would not survive it; empty if it would."""
    if isinstance(operation, ADDS):
        return ""
    if isinstance(operation, operations.AddField):
        field = operation.field
        fits = field.null or field.many_to_many or field.db_default is not models.NOT_PROVIDED
        return "" if fits else f"{operation.name} has neither null=True nor db_default"
    if isinstance(operation, operations.RemoveIndex | operations.RemoveConstraint):
        return ""
    return f"{type(operation).__name__} does not only add"


def refusals(migrations):
    return [
        f"{app}.{name}: {reason}"
        for (app, name), migration in migrations.items()
        if app in OURS and not migration.initial and (app, name) not in REMOVALS
        for reason in map(refusal_of, migration.operations)
        if reason
    ]


def test_every_migration_after_the_first_only_adds():
    assert refusals(MigrationLoader(None).disk_migrations) == []


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (operations.AddField("run", "note", models.TextField(null=True)), ""),
        (operations.AddField("run", "note", models.TextField(db_default="")), ""),
        (operations.AddField("run", "note", models.TextField(default="")), "neither"),
        (operations.RemoveField("run", "note"), "does not only add"),
        (operations.RenameField("run", "note", "remark"), "does not only add"),
        (operations.AlterField("run", "note", models.IntegerField()), "does not only add"),
        (operations.RunSQL("DROP TABLE runs_run"), "does not only add"),
        (operations.CreateModel("Note", [("id", models.AutoField(primary_key=True))]), ""),
    ],
)
def test_what_adds_and_what_does_not(operation, reason):
    migration = Migration("0002_later", "runs")
    migration.operations = [operation]
    found = refusals({("runs", "0002_later"): migration})
    assert (reason in found[0]) if reason else found == []
