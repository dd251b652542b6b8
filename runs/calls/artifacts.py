"""Files that the calls of a run make. They belong to the run's person; the run refers to them."""

import hashlib
import logging
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from agents import storage
from agents.exceptions import MusterError
from agents.models import StoredFile
from agents.tools import ToolFailed, ToolSpec
from runs.models import Artifact, Attachment, Run, ToolCallRecord
from runs.models.session import parsed_id

log = logging.getLogger(__name__)
LIMIT = 100  # files of one run


def save_artifact(
    executor: Any, tool: ToolSpec, record: ToolCallRecord, name: str, content: bytes, declared: str = ""
) -> dict[str, Any]:
    """Store a file that this call made, with its event. A repeated call finds the file that it made before.

    Raises ToolFailed (too_many_artifacts, too_large, too_many_files, quota_exceeded, storage_failed), LeaseLost.
    """
    earlier = made_before(record, storage.clean_name(name), content)
    if earlier is not None:
        return describe_artifact(earlier.file)
    run = executor.run
    if Artifact.objects.filter(run=run).count() >= LIMIT:
        raise ToolFailed(f"a run can make at most {LIMIT} files", code="too_many_artifacts")
    untrusted = run.has_untrusted or record.untrusted or tool.untrusted
    try:
        file = storage.store_bytes(
            run.principal_id,
            name,
            content,
            declared=declared,
            untrusted=untrusted,
            source=StoredFile.Source.RUN,
        )
        event_data = {**describe_artifact(file), "untrusted": untrusted, "call": str(record.pk)}
        with transaction.atomic():
            executor.tell(("artifact.created", event_data))
            storage.insert_file_row(file)
            Artifact.objects.create(run=run, call=record, file=file)
    except MusterError as error:
        raise ToolFailed(f"{error} {error.hint}".strip(), code=error.code)
    except OSError:
        log.exception("A file of the run %s could not be stored", run.pk)
        raise ToolFailed("the file could not be stored; see the server's log", code="storage_failed")
    return describe_artifact(file)


def within_reach(run: Run) -> list[dict[str, Any]]:
    """The files of the run's conversation, and those that the runs of its tree made, newest first."""
    newest = reachable(run).order_by("-id")[:LIMIT]
    return [{**describe_artifact(file), "untrusted": file.untrusted} for file in newest]


def read_artifact(run: Run, file_id: str) -> bytes | None:
    """The content of one of these files; None if it is not among them."""
    file = reachable(run).filter(pk=parsed_id(file_id)).first()
    if file is None:
        return None
    return storage.read_stored_file(file)


def reachable(run: Run) -> QuerySet[StoredFile]:
    artifacts = Artifact.objects.of_tree(run)
    attachments = Attachment.objects.none()
    if run.session_id:
        attachments = Attachment.objects.filter(message__session=run.session_id)
    ids = Q(pk__in=artifacts.values("file")) | Q(pk__in=attachments.values("file"))
    return StoredFile.objects.filter(ids, owner=run.principal_id)


def made_before(record: ToolCallRecord, name: str, content: bytes) -> Artifact | None:
    sha256 = hashlib.sha256(content).hexdigest()
    same = Artifact.objects.filter(call=record, file__name=name, file__sha256=sha256)
    return same.select_related("file").first()


def describe_artifact(file: StoredFile) -> dict[str, Any]:
    return {"file": str(file.pk), "name": file.name, "media_type": file.media_type, "size": file.size}
