"""Writes rows to definition files."""

import sys
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from agents.definitions import files


class Command(BaseCommand):
    help = "Write one owner's agents, functions, tools, providers and chains as YAML. Secrets are never included."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("path", nargs="?", default="-", help="A file, or - for standard output.")
        parser.add_argument("--user", help="Owner; default: the site.")
        parser.add_argument("--kind", help="Only this kind.")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = person(options["user"])
        if options["kind"] and options["kind"] not in files.kinds():
            raise CommandError(f"“{options['kind']}” is not a kind; kinds are {', '.join(files.kinds())}.")
        text = files.dump(files.export(owner, only=options["kind"]))
        if options["path"] == "-":
            sys.stdout.write(text)
        else:
            Path(options["path"]).write_text(text)


def person(name: str | None) -> Any:
    """The user with that name; None is the site."""
    if name is None:
        return None
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user “{name}”.")
    return user
