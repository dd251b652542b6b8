"""manage.py import_functions: store the functions of Python files."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from agents.definitions.files import Site
from agents.exceptions import MusterError
from agents.management.commands.export_definitions import find_person
from agents.models.team import check_name
from functions import importing, store
from functions.models import StoredFunction
from functions.signature import SourceProblem


class Command(BaseCommand):
    help = (
        "Store the functions of a Python file or folder: those in __all__, else public ones that no other "
        "function calls. "
        "Refused functions are listed with the line of the problem; the others are stored."
    )

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("path", type=Path, help="A Python file, or a folder of them.")
        parser.add_argument("--user", help="Owner of the functions; default: the site's owner.")
        parser.add_argument("--publish", action="store_true", help="Also publish each function.")

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["path"]
        if not path.exists():
            raise CommandError(f"The path {path} does not exist.")
        self.owner = find_person(options["user"])
        self.actor = self.owner or Site()
        refused = 0
        for file in importing.list_python_files(path):
            refused += self.import_file(file, options["publish"])
        if refused:
            raise CommandError(f"{refused} refused; the others were stored.")

    def import_file(self, file: Path, publish: bool) -> int:
        """The number of refused functions."""
        try:
            rows = list(importing.build_function_rows(file, self.owner))
        except (OSError, UnicodeDecodeError) as error:
            refusal = {"line": 1, "message": str(error), "hint": "Save it as UTF-8 text."}
            return self.refused(file, "", [refusal])
        except SourceProblem as problem:
            return self.refused(file, "", [problem.as_refusal()])
        return sum(self.import_row(file, row, publish) for row in rows)

    def import_row(self, file: Path, row: StoredFunction, publish: bool) -> int:
        report = f"created {row.name}"
        if row.pk:
            report = f"changed {row.name}"
        try:
            check_name(row.name)
            store.save_function(row, user=self.actor, source="import_functions")
            if publish:
                version = store.publish_function(row, user=self.actor, source="import_functions")
                report += f" v{version.number}"
        except ValidationError as error:
            message = " ".join(error.messages)
            return self.refused(file, row.name, [{"line": 1, "message": message, "hint": "Rename it."}])
        except MusterError as error:
            refusals = error.details or [{"line": 1, "message": str(error), "hint": error.hint}]
            return self.refused(file, row.name, refusals)
        self.stdout.write(report)
        return 0

    def refused(self, file: Path, name: str, refusals: list[dict[str, Any]]) -> int:
        for refusal in refusals:
            text = f"{refusal['message']} {refusal.get('hint', '')}".rstrip()
            if name:
                text = f"{name}: {text}"
            self.stderr.write(f"{file}:{refusal.get('line', 1)}: {text}")
        return 1
