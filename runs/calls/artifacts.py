"""Files that the calls of a run make. They belong to the run's person; the run refers to them."""

import hashlib
import logging
from typing import Any

from django.db import transaction

from agents import storage
from agents.exceptions import MusterError
from agents.models import StoredFile
from agents.tools import ToolFailed, ToolSpec
from runs.models import Artifact, ToolCallRecord

log = logging.getLogger(__name__)
LIMIT = 100  # files of one run


def save(
    desk: Any, tool: ToolSpec, record: ToolCallRecord, name: str, content: bytes, declared: str = ""
) -> dict[str, Any]:
    """Store a file that this call made, with its event. A repeated call finds the file that it made before.

    Raises ToolFailed (too_many_artifacts, too_large, too_many_files, quota_exceeded, storage_failed), LeaseLost.
    """
    if earlier := made_before(record, storage.clean_name(name), content):
        return described(earlier.file)
    if Artifact.objects.filter(run=desk.run).count() >= LIMIT:
        raise ToolFailed(f"a run can make at most {LIMIT} files", code="too_many_artifacts")
    untrusted = desk.run.has_untrusted or record.untrusted or tool.untrusted
    try:
        file = storage.prepared(
            desk.run.principal_id, name, content, declared=declared, untrusted=untrusted, source=StoredFile.Source.RUN
        )
        with transaction.atomic():
            desk.tell(("artifact.created", {**described(file), "untrusted": untrusted, "call": str(record.pk)}))
            storage.keep(file)
            Artifact.objects.create(run=desk.run, call=record, file=file)
    except MusterError as error:
        raise ToolFailed(f"{error} {error.hint}".strip(), code=error.code)
    except OSError:
        log.exception("A file of the run %s could not be stored", desk.run.pk)
        raise ToolFailed("the file could not be stored; see the server's log", code="storage_failed")
    return described(file)


def made_before(record: ToolCallRecord, name: str, content: bytes) -> Artifact | None:
    same = Artifact.objects.filter(call=record, file__name=name, file__sha256=hashlib.sha256(content).hexdigest())
    return same.select_related("file").first()


def described(file: StoredFile) -> dict[str, Any]:
    return {"file": str(file.pk), "name": file.name, "media_type": file.media_type, "size": file.size}
