"""Stored files for tests."""

from typing import Any

from agents import storage
from agents.models import StoredFile


def stored(
    owner: Any, name: str = "a.txt", content: bytes = b"words", *, media_type: str = "", **more: Any
) -> StoredFile:
    return storage.save(owner.pk, name, content, declared=media_type, **more)
