"""No table that messages write to has an index whose work another one does: each costs every insert."""

import pytest
from django.apps import apps
from django.db import connection

from agents.models import IdempotentRequest
from functions.models import Execution

DEFINITIONS = ("Schedule", "Trigger")  # few rows, and owner and team come from the base of all definitions


def whole_indexes(table):
    """Names of the indexes of all rows of a table, each with its columns."""
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table)
        partial = partial_indexes(cursor, table)
    return {
        name: (tuple(one["columns"]), one["unique"] or one["primary_key"])
        for name, one in constraints.items()
        if (one["index"] or one["unique"] or one["primary_key"]) and name not in partial and one["columns"]
    }


def partial_indexes(cursor, table):
    if connection.vendor == "sqlite":
        cursor.execute("SELECT name FROM sqlite_master WHERE tbl_name = %s AND sql LIKE '%% WHERE %%'", [table])
    else:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s AND indexdef LIKE '%% WHERE %%'", [table])
    return {name for (name,) in cursor.fetchall()}


def superfluous_indexes(table):
    """Indexes whose columns are the first columns of another index. A unique one is needed for what it forbids, and
    PostgreSQL's indexes for LIKE have an order of their own.
    """
    indexes = whole_indexes(table)
    for name, (columns, is_unique) in indexes.items():
        if is_unique or name.endswith("_like"):
            continue
        for other, (longer, _) in indexes.items():
            if other != name and not other.endswith("_like") and longer[: len(columns)] == columns:
                yield f"{table}: {name} {columns}, because of {other} {longer}"
                break


@pytest.mark.django_db
def test_no_index_of_what_a_message_writes_does_the_work_of_another():
    models = [model for model in apps.get_app_config("runs").get_models() if model.__name__ not in DEFINITIONS]
    tables = [model._meta.db_table for model in (*models, Execution, IdempotentRequest)]
    problems = [problem for table in tables for problem in superfluous_indexes(table)]
    assert not problems, "\n".join(problems)
