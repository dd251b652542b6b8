"""Stored files for tests."""

from typing import Any

from agents import storage
from agents.models import StoredFile

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)  # recognised as one; too short to be drawn


def stored(
    owner: Any, name: str = "a.txt", content: bytes = b"words", *, media_type: str = "", **more: Any
) -> StoredFile:
    return storage.save_file(owner.pk, name, content, declared=media_type, **more)
