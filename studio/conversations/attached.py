"""The files that people attached to messages, for the pages that show a conversation."""

from collections.abc import Sequence
from typing import Any

from runs.intake.parts import files_of
from runs.models import Message
from runs.models.session import files_in, words_of


def place(messages: Sequence[Message], viewer: Any) -> None:
    """Give each message its words without placeholders for files, those of its files that the viewer
    may read, and how many are missing. One query if there are files, none otherwise.
    """
    files = files_of(messages, viewer)
    for message in messages:
        ids = files_in(message.content)
        message.plain = words_of([part for part in message.content if part.get("type") != "file"])  # type: ignore[attr-defined]
        message.files = [files[pk] for pk in ids if pk in files]  # type: ignore[attr-defined]
        message.missing = len(ids) - len(message.files)  # type: ignore[attr-defined]
