"""A database that was made with other migrations of the same names is noticed, and said to be so."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from agents import tables
from agents.models import Provider
from supervisor import preparation

pytestmark = pytest.mark.django_db


def execute(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def other_tables():
    """A column has another name, and one is there that the models do not know."""
    execute("ALTER TABLE agents_team RENAME COLUMN name TO label")
    execute("ALTER TABLE agents_secret ADD COLUMN remark text NULL")


def test_the_tables_that_migrations_make_are_those_of_the_models():
    assert (tables.differences(), tables.list_waiting_migrations(), tables.explain_table_problem()) == ([], [], "")


def test_a_missing_column_and_one_that_must_be_filled_are_named_and_one_that_may_be_empty_is_not(other_tables):
    assert tables.differences() == [
        "agents_team has no column name",
        "agents_team has a column label that must be filled",
    ]


def test_a_missing_table_is_named():
    execute("ALTER TABLE agents_sitehold RENAME TO agents_other")
    assert "there is no table agents_sitehold" in tables.differences()


def test_tables_of_an_app_with_migrations_left_are_not_judged():
    execute("ALTER TABLE runs_trigger RENAME COLUMN name TO label")
    assert tables.differences() != []
    MigrationRecorder(connection).record_unapplied("runs", "0001_initial")
    assert "runs.0001_initial" in tables.list_waiting_migrations()
    assert tables.differences() == []


def test_migrations_in_another_order_are_those_of_another_version():
    """As in a database that was made before a migration of today became two."""
    MigrationRecorder(connection).record_unapplied("agents", "0002_initial")
    assert (
        "made by another version of Muster (its migrations were applied in another order)"
        in tables.explain_table_problem()
    )


def test_init_db_refuses_it_before_it_writes_anything(other_tables):
    Provider.objects.all().delete()
    with pytest.raises(CommandError, match="agents_team has no column name, and 1 more difference") as refusal:
        call_command("init_db", stdout=StringIO())
    assert "MUSTER_DATA_DIR=var/new make run" in str(refusal.value)
    assert not Provider.objects.exists()


@pytest.fixture
def own_options(monkeypatch):
    """A program's child takes the pool out of the options of its connection."""
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", dict(connection.settings_dict["OPTIONS"]))


def test_a_program_alone_refuses_it_too(other_tables, own_options):
    with pytest.raises(SystemExit, match="made by another version of Muster"):
        preparation.check_tables()


def test_a_program_alone_starts_beside_a_database_that_does_not_answer(monkeypatch, own_options):
    def away():
        raise OperationalError("connection refused")

    monkeypatch.setattr(tables, "columns_of_database", away)
    preparation.check_tables()


def test_somebody_s_own_database_is_named_by_its_address(other_tables, settings):
    settings.DATA_DIR = settings.DATA_DIR / "elsewhere"
    settings.EMBEDDED_POSTGRES = False
    assert str(connection.settings_dict["NAME"]) in tables.explain_table_problem()
    assert "DATABASE_URL" in tables.explain_table_problem()


def test_doctor_names_it(other_tables):
    told = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=told)
    part = json.loads(told.getvalue())["tables"]
    assert not part["ok"] and "agents_team has no column name" in part["problem"] and "make run" in part["hint"]


def test_doctor_names_migrations_that_are_not_applied():
    MigrationRecorder(connection).record_unapplied("runs", "0001_initial")
    told = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=told)
    part = json.loads(told.getvalue())["tables"]
    assert "runs.0001_initial" in part["problem"] and "init_db" in part["hint"]


def test_a_changed_migration_has_the_database_prepared_again(monkeypatch, tmp_path, settings):
    path = tmp_path / "app" / "migrations" / "0001_initial.py"
    path.parent.mkdir(parents=True)
    settings.BASE_DIR = tmp_path
    path.write_text("one")
    before = preparation.fingerprint()
    path.write_text("two")
    assert preparation.fingerprint() != before
