"""Writes rows to definition files."""

import sys
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from agents.definitions import files
from agents.exceptions import MusterError


class Command(BaseCommand):
    help = "Write one owner's definitions, such as agents, functions and collections, as YAML, without secrets."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("path", nargs="?", default="-", help="A file, or - for standard output.")
        parser.add_argument("--user", help="Owner; default: the site.")
        parser.add_argument("--kind", help="Only this kind.")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = find_person(options["user"])
        if options["kind"] and options["kind"] not in files.kinds():
            raise CommandError(f"“{options['kind']}” is not a kind; kinds are {', '.join(files.kinds())}.")
        try:
            text = files.dump_definitions(files.export_definitions(owner, only=options["kind"]))
        except MusterError as error:
            raise CommandError(f"{error} {error.hint}".strip())
        if options["path"] == "-":
            sys.stdout.write(text)
        else:
            Path(options["path"]).write_text(text)


def find_person(name: str | None) -> Any:
    """The user with that name; None is the site."""
    if name is None:
        return None
    user = get_user_model().objects.find(name)
    if user is None:
        raise CommandError(f"There is no user “{name}”.")
    return user
