"""Make an API key: `manage.py create_key alice --scope messages:write --scope runs:read`."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents.models import ApiKey, AuditEvent
from agents.models.key import EVERYTHING, SCOPES, unknown_scopes
from agents.names import normal_name


class Command(BaseCommand):
    help = "Print a new API key for a user (created without a password if missing) and nothing else on stdout."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            help="May be repeated; default: * (everything except approvals:decide).",
        )
        parser.add_argument("--name", default="", help="What the key is for.")
        parser.add_argument("--days", type=float, help="Days until it expires; default: never.")

    def handle(self, *args: Any, **options: Any) -> None:
        scopes = list(dict.fromkeys(options["scope"])) or [EVERYTHING]
        if wrong := unknown_scopes(scopes):
            raise CommandError(f"Unknown scope {', '.join(wrong)}; valid scopes are *, {', '.join(sorted(SCOPES))}.")
        expires_at = self.expiry(options["days"])
        user = self.find_or_make(options["user"])
        key, secret = ApiKey.make(user, scopes, name=options["name"][:100], expires_at=expires_at)
        AuditEvent.record("apikey.created", key, actor=user, source="create_key", scopes=scopes)
        self.stdout.write(secret)

    def expiry(self, days: float | None) -> Any:
        if days is None:
            return None
        if not 0 < days <= 36_500:
            raise CommandError("--days must lie between 0 and 36500.")
        return timezone.now() + timedelta(days=days)

    def find_or_make(self, username: str) -> Any:
        users = get_user_model()
        if user := users.objects.filter(username=username).first():
            return user
        for other in users.objects.values_list("username", flat=True).iterator():
            if normal_name(other) == normal_name(username):
                raise CommandError(f"“{username}” looks like the user “{other}”, who exists already.")
        user = users(username=username)
        user.set_unusable_password()
        try:
            user.full_clean(exclude=["password"])
        except ValidationError as error:
            raise CommandError(f"“{username}” is not a valid user name: {'; '.join(error.messages)}")
        user.save()
        self.stderr.write(f"Created the user {username} without a password.")
        return user
