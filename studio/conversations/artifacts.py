"""The files that runs made, for the pages that show a conversation."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from runs.models import Artifact, Message

LIMIT = 200  # files on one page


def place(messages: Sequence[Message]) -> None:
    """Give the last message of each run the files that the run and those below it made. One query."""
    last = {message.made_in: message for message in messages if message.made_in}
    files: dict[Any, list[Artifact]] = defaultdict(list)
    for artifact in made_in(last):
        files[artifact.run.root_id if artifact.run_id not in last else artifact.run_id].append(artifact)
    for run_id, message in last.items():
        message.artifacts = files[run_id]  # type: ignore[attr-defined]


def made_in(run_ids: Iterable[Any]) -> list[Artifact]:
    ids = list(run_ids)
    rows = Artifact.objects.filter(Q(run__in=ids) | Q(run__root__in=ids)) if ids else Artifact.objects.none()
    return list(rows.select_related("file", "run").order_by("id")[:LIMIT])
