"""Make an account: `manage.py create_user alice --role author --invite`."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents import accounts, roles
from agents.exceptions import MusterError
from agents.models import AuditEvent


class Command(BaseCommand):
    help = "Make an account without a password in one of the four roles; --invite prints the link to choose one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--role", choices=roles.ROLES, default="operator", help="On the site; default: operator.")
        parser.add_argument("--email", default="", help="Where notices go.")
        parser.add_argument(
            "--invite", action="store_true", help="Print a link with which the person chooses a password, once."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            person = accounts.create_person(options["user"], email=options["email"], role=options["role"])
        except MusterError as error:
            sentences = [detail["message"] for detail in error.details] or [str(error), error.hint]
            raise CommandError(" ".join(sentences))
        AuditEvent.record("user.created", person, source="create_user", role=options["role"])
        self.stderr.write(f"Created {person} as {options['role']}.")
        if options["invite"]:
            url, _expires_at = accounts.make_invitation(person)
            self.stdout.write(url)
