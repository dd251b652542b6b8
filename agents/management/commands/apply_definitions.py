"""Applies definition files: shows the changes, then makes them in one transaction."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from agents.definitions import files
from agents.exceptions import MusterError

from .export_definitions import find_person


class Command(BaseCommand):
    help = "Apply YAML definitions; --plan only shows what would change."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("path", type=Path, help="A YAML file, or a folder of them.")
        parser.add_argument("--plan", action="store_true", help="Show the changes without making them.")
        parser.add_argument("--user", help="Owner of the rows; default: the site.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["path"].exists():
            raise CommandError(f"{options['path']} does not exist.")
        owner = find_person(options["user"])
        try:
            changes = files.plan_changes(files.load_definition_files(options["path"]), owner=owner)
            for change in changes:
                self.stdout.write(str(change))
            if not options["plan"]:
                count = files.apply_changes(changes, owner=owner, actor=owner or files.Site())
                self.stdout.write(f"{count} written")
        except (MusterError, ValidationError) as error:
            details = "".join(f"\n  {detail}" for detail in getattr(error, "details", []))
            raise CommandError(f"{error}{details}\nNothing was changed.")
