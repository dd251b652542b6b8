"""manage.py: the version, and a database for every command."""

import os
import subprocess
import sys
import tomllib

import pytest
from django.db import OperationalError, ProgrammingError, connection

from config.settings.environment import BASE_DIR
from plumbing.release import VERSION
from supervisor import command_line, postgres
from supervisor.backups import postgresql
from supervisor.backups.archive import Manifest
from tests.live import plain_environment


def manage(*arguments, **environment):
    """What a command prints, and its exit status."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=BASE_DIR,
        env=plain_environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout, done.returncode


@pytest.mark.parametrize("argument", ["--version", "version"])
def test_it_tells_its_own_version(argument, capsys):
    command_line.CommandLine(["manage.py", argument]).execute()
    assert capsys.readouterr().out == f"Muster {VERSION}\n"


def test_the_version_is_that_of_the_package():
    with open(BASE_DIR / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["version"] == VERSION


@pytest.mark.slow
def test_a_command_starts_the_embedded_postgresql_for_its_time(tmp_path):
    environment = {"MUSTER_DATA_DIR": str(tmp_path / "data"), "DB": "postgres"}
    said, code = manage("resume", "--plan", **environment)
    assert code == 1
    assert said.startswith("CommandError: The database lacks tables")
    assert "manage.py init_db" in said
    cluster = postgres.get_cluster(tmp_path / "data")
    assert not postgres.is_ready(cluster)


@pytest.mark.slow
def test_a_database_that_cannot_be_reached_is_one_line(tmp_path):
    address = "postgres://muster@127.0.0.1:9/muster"
    said, code = manage("resume", "--plan", DATABASE_URL=address, MUSTER_DATA_DIR=str(tmp_path))
    assert code == 1
    assert len(said.splitlines()) == 1
    assert "cannot be reached" in said and "DATABASE_URL" in said


@pytest.mark.django_db
def test_a_statement_that_is_refused_is_not_taken_for_missing_tables():
    problem = command_line.describe_database_error(ProgrammingError("division by zero\nLINE 1: SELECT 1/0"))
    assert problem.startswith("The database refused a statement (division by zero)")


@pytest.mark.django_db
def test_waiting_migrations_are_the_reason_for_missing_tables(monkeypatch):
    monkeypatch.setattr(command_line.tables, "list_waiting_migrations", lambda: ["agents.0001_initial"])
    assert "init_db" in command_line.describe_database_error(OperationalError("no such table: agents_agent"))


def test_a_killed_postgresql_that_nobody_waited_for_does_not_stop_the_next_one(tmp_path):
    zombie = os.fork()
    if not zombie:
        os._exit(0)
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    (tmp_path / "postmaster.pid").write_text(f"{zombie}\n{tmp_path}\n")
    postgres.wait_for_earlier(postgres.Cluster(tmp_path, tmp_path, tmp_path))
    os.waitpid(zombie, 0)
    assert not (tmp_path / "postmaster.pid").exists()


@pytest.mark.django_db(transaction=True)
def test_a_backup_is_checked_where_there_are_no_tables():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's backup is a whole database")
    manifest = Manifest(made_at="", vendor="postgresql", migrations=[["contenttypes", "0001_initial"]], key_check="")
    manifest.tables = {"a_table_that_this_site_lacks": {"rows": 0, "columns": []}}
    before = postgresql.table_names()
    with postgresql.tables_of(manifest):
        assert set(postgresql.table_names()) == {"django_content_type", "django_migrations"}
    assert postgresql.table_names() == before
