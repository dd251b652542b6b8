"""The files of messages on pages that show a conversation: those that people attached, and those that runs made."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from runs.intake.parts import files_of
from runs.models import Artifact, Message
from runs.models.session import files_in, words_of

LIMIT = 200  # files on one page


def place_attachments(messages: Sequence[Message], viewer: Any) -> None:
    """Give each message its words without placeholders for files, those of its files that the viewer
    may read, and how many are missing. One query if there are files, none otherwise.
    """
    files = files_of(messages, viewer)
    for message in messages:
        ids = files_in(message.content)
        message.plain = words_of([part for part in message.content if part.get("type") != "file"])  # type: ignore[attr-defined]
        message.files = [files[pk] for pk in ids if pk in files]  # type: ignore[attr-defined]
        message.missing = len(ids) - len(message.files)  # type: ignore[attr-defined]


def place_artifacts(messages: Sequence[Message]) -> None:
    """Give the last message of each run the files that the run and those below it made. One query."""
    last = {message.made_in: message for message in messages if message.made_in}
    files: dict[Any, list[Artifact]] = defaultdict(list)
    for artifact in find_artifacts(last):
        files[artifact.run.root_id if artifact.run_id not in last else artifact.run_id].append(artifact)
    for run_id, message in last.items():
        message.artifacts = files[run_id]  # type: ignore[attr-defined]


def find_artifacts(run_ids: Iterable[Any]) -> list[Artifact]:
    ids = list(run_ids)
    rows = Artifact.objects.filter(Q(run__in=ids) | Q(run__root__in=ids)) if ids else Artifact.objects.none()
    return list(rows.select_related("file", "run").order_by("id")[:LIMIT])
