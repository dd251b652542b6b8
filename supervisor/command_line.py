"""The commands of manage.py: Django's, with Muster's version, and a database for each that needs one."""

import sys
from typing import Any

from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from agents import tables
from plumbing.release import VERSION

from .preparation import database_at_hand

# They use no database, start one themselves, or must not use it while `serve` does.
WITHOUT_DATABASE = {
    "backup",
    "check",
    "collectstatic",
    "compilemessages",
    "diffsettings",
    "findstatic",
    "makemessages",
    "restore",
    "serve",
    "spectacular",
    "test",
}


def describe_database_error(error: DatabaseError) -> str:
    """One sentence with what to do. `--traceback` shows where it happened."""
    reason = str(error).partition("\n")[0]
    try:
        waiting = tables.list_waiting_migrations()
    except DatabaseError:
        return f"The database cannot be reached ({reason}): start it, or correct DATABASE_URL."
    if waiting:
        return f"The database lacks tables ({reason}): run `manage.py init_db` first."
    return f"The database refused a statement ({reason}): see its log, or repeat the command with --traceback."


class CommandLine(ManagementUtility):
    """Starts the embedded PostgreSQL for the time of a command while no `serve` runs it."""

    def execute(self) -> None:
        if self.argv[1:] in (["--version"], ["version"]):
            sys.stdout.write(f"Muster {VERSION}\n")
            return
        super().execute()

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        if subcommand not in WITHOUT_DATABASE:
            self.give_database(command)
        return command

    def give_database(self, command: BaseCommand) -> None:
        execute = command.execute

        def execute_with_database(*args: Any, **options: Any) -> Any:
            with database_at_hand():
                try:
                    return execute(*args, **options)
                except DatabaseError as error:
                    raise CommandError(describe_database_error(error)) from error

        command.execute = execute_with_database  # type: ignore[method-assign]
