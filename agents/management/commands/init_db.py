"""Prepares a database: migrations, roles, providers, starter definitions. Safe to run again at any
time.
"""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from agents import roles, tables
from agents.definitions import files
from agents.definitions.model_names import default_model
from agents.exceptions import MusterError
from agents.models import Provider

STARTERS = Path(__file__).resolve().parents[2] / "starters"
KEYS = {"OPENAI_API_KEY": "openai", "ANTHROPIC_API_KEY": "anthropic", "GOOGLE_API_KEY": "google"}


class Command(BaseCommand):
    help = "Run migrations, create roles and providers, and install new starters. Safe to run again."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--no-starters", action="store_true", help="Only migrations, roles and providers.")

    def handle(self, *args: Any, **options: Any) -> None:
        # Before anything is written to them.
        self.refuse_other_tables()
        call_command("migrate", verbosity=0, interactive=False)
        # Those of apps that had migrations left.
        self.refuse_other_tables()
        roles.make_roles()
        for provider in self.offer_providers():
            self.stdout.write(f"provider {provider.name}")
        for path in settings.CATALOGUES:
            import_string(path)()
        if options["no_starters"]:
            return
        try:
            done = files.install_starters(STARTERS, actor=files.Site())
        except MusterError as error:
            raise CommandError(" ".join(filter(None, [str(error), error.hint])))
        if options["verbosity"]:
            for change in done:
                self.stdout.write(str(change))
            self.stdout.write(f"{len(done)} starter definitions installed" if done else "nothing new")

    def refuse_other_tables(self) -> None:
        if reason := tables.explain_table_problem():
            raise CommandError(reason)

    def offer_providers(self) -> list[Provider]:
        """A provider for each key in the environment, and the offline one."""
        offers = [(kind, kind, os.environ[name], "") for name, kind in KEYS.items() if os.environ.get(name)]
        if url := os.environ.get("OPENAI_BASE_URL") or os.environ.get("MUSTER_LOCAL_MODEL"):
            offers.append(("local", "openai-compatible", os.environ.get("OPENAI_API_KEY", "none"), url))
        offers.append(("offline", "offline", "", ""))
        added = []
        for name, kind, key, url in offers:
            provider, is_new = Provider.objects.get_or_create(
                owner=None, name=name, defaults={"kind": kind, "api_key": key, "base_url": url}
            )
            if is_new:
                give_default_model(provider)
                added.append(provider)
        return added


def give_default_model(provider: Provider) -> None:
    """So that an agent that names no model can be published. A server that is not running yet gets none."""
    try:
        model = default_model(provider)
    except MusterError:
        return
    if model:
        provider.default_model = model
        provider.save(update_fields=["default_model"])
