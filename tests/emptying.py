"""After a test that commits, Django empties the tables and makes content types and permissions again.

It finds out from every model which there should be, which takes a tenth of a second of CPU. Here the rows that it made
the first time are put back.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush
from django.core.management.sql import emit_post_migrate_signal


@pytest.fixture(autouse=True, scope="session")
def permissions_are_put_back() -> Iterator[None]:
    content_types: list[ContentType] = []
    permissions: list[Permission] = []

    def make_or_put_back(verbosity: int, interactive: bool, db: str, **more: Any) -> None:
        if not permissions:
            emit_post_migrate_signal(verbosity, interactive, db, **more)
            content_types.extend(ContentType.objects.using(db).all())
            permissions.extend(Permission.objects.using(db).all())
            return
        ContentType.objects.clear_cache()
        ContentType.objects.using(db).bulk_create(content_types)
        Permission.objects.using(db).bulk_create(permissions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "emit_post_migrate_signal", make_or_put_back)
        yield
