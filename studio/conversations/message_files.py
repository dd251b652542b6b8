"""The files of messages on pages that show a conversation: those that people attached, and those that runs made."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from runs.intake.parts import load_message_files
from runs.models import Artifact, Message
from runs.models.session import list_file_ids, render_parts

# Files on one page.
LIMIT = 200


def place_attachments(messages: Sequence[Message], viewer: Any) -> None:
    """Give each message its words without placeholders for files, those of its files that the viewer
    may read, and how many are missing. One query if there are files, none otherwise.
    """
    files = load_message_files(messages, viewer)
    for message in messages:
        ids = list_file_ids(message.content)
        text_parts = [part for part in message.content if part.get("type") != "file"]
        readable = [files[pk] for pk in ids if pk in files]
        message.plain = render_parts(text_parts)  # type: ignore[attr-defined]
        message.files = readable  # type: ignore[attr-defined]
        message.missing = len(ids) - len(readable)  # type: ignore[attr-defined]


def place_artifacts(messages: Sequence[Message]) -> None:
    """Give the last message of each run the files that the run and those below it made. One query."""
    last_messages = {message.made_in: message for message in messages if message.made_in}
    files: dict[Any, list[Artifact]] = defaultdict(list)
    for artifact in find_artifacts(last_messages):
        # A run below them has no message here: its files stand with the first run of the tree.
        run_id = artifact.run_id
        if run_id not in last_messages:
            run_id = artifact.run.root_id
        files[run_id].append(artifact)
    for run_id, message in last_messages.items():
        message.artifacts = files[run_id]  # type: ignore[attr-defined]


def find_artifacts(run_ids: Iterable[Any]) -> list[Artifact]:
    """The files that these runs and those below them made."""
    ids = list(run_ids)
    if not ids:
        return []
    rows = Artifact.objects.filter(Q(run__in=ids) | Q(run__root__in=ids))
    return list(rows.select_related("file", "run").order_by("id")[:LIMIT])
