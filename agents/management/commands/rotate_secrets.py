"""Re-encrypts every stored secret with the newest of MUSTER_FIELD_KEYS, so that older keys can be
removed.
"""

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand
from django.db import transaction
from django.db.models import Model

from agents.fields import EncryptedTextField

BATCH = 200


class Command(BaseCommand):
    help = "Re-encrypt all secrets with the first of MUSTER_FIELD_KEYS."

    def handle(self, *args: Any, **options: Any) -> None:
        total = sum(rotate(model, names) for model, names in encrypted_columns())
        self.stdout.write(f"{total} rows are encrypted with the newest key.")


def encrypted_columns() -> list[tuple[type[Model], list[str]]]:
    columns = []
    for model in apps.get_models():
        names = [field.name for field in model._meta.concrete_fields if isinstance(field, EncryptedTextField)]
        if names:
            columns.append((model, names))
    return columns


def rotate(model: type[Model], names: list[str]) -> int:
    """Reading decrypts with any key, writing encrypts with the newest; rows are locked in batches."""
    keys = list(model._default_manager.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), BATCH):
        with transaction.atomic():
            rows = list(model._default_manager.select_for_update().filter(pk__in=keys[start : start + BATCH]))
            model._default_manager.bulk_update(rows, names)
    return len(keys)
