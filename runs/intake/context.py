"""Context for a run: texts that the model reads before the message. Each source names one thing,
and a missing one is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents import storage
from agents.exceptions import Invalid
from agents.models import StoredFile
from agents.models.team import others_among
from agents.tools import ToolFailed
from runs.models import Message, Run, Session

from . import authors
from .checks import lineage
from .parts import read_file_text

LIMIT = 20_000  # characters of one source
COMPACT = 600
SESSIONS = ("summary", "compact", "session", "transcript")

Source = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose sessions and files may be read, and the session that a source without `id` means."""

    owner_id: int
    session_id: Any = None

    @classmethod
    def of(cls, run: Run) -> "Asker":
        """A chain without a session of its own is in that of the nearest run above it, unless somebody else than the
        person, the site and the owner of that run reads what the chain is told.
        """
        readers: set[int] = set()
        for above in lineage(run):
            owner = authors.own(above)
            if above.session_id:
                is_read_by_others = not readers <= {owner}
                return cls(run.principal_id, None if is_read_by_others else above.session_id)
            readers |= others_among([owner], run.principal_id)
        return cls(run.principal_id)


def is_untrusted(asker: Asker, sources: Sequence[Source]) -> bool:
    """Whether a source may contain untrusted content. They were gathered before, so each exists."""
    return any(is_source_untrusted(asker, source) for source in sources)


def is_source_untrusted(asker: Asker, source: Source) -> bool:
    if source.get("source") == "file":
        return StoredFile.objects.filter(pk=checked_id(source), untrusted=True).exists()
    return own_session(asker, source).has_untrusted


def gather_message_context(user: Any, sources: Sequence[Source]) -> dict[str, str]:
    """The context of a run that is not started by another one: {"context": text}, or {}. Raises Invalid."""
    try:
        text = gather(Asker(user.pk), sources)
    except ToolFailed as error:
        detail = {"field": "context", "code": error.code, "message": str(error)}
        raise Invalid(f"The context is not valid: {error}.", code=error.code, details=[detail])
    return {"context": text} if text else {}


def gather(asker: Asker, sources: Sequence[Source]) -> str:
    """The sources' text, one block each. Raises ToolFailed for an unknown source or another user's."""
    return "\n\n".join(read_context_source(asker, source) for source in sources)


def read_context_source(asker: Asker, source: Source) -> str:
    reader = READERS.get(str(source.get("source", "")))
    if reader is None:
        names = ", ".join(sorted(READERS))
        raise ToolFailed(f"unknown context source {source.get('source')!r}; known: {names}", code="unknown_source")
    text = reader(asker, source)
    if len(text) > LIMIT:
        return f"{text[:LIMIT]}\n[cut: {len(text) - LIMIT} more characters]"
    return text


def summary(asker: Asker, source: Source) -> str:
    session = own_session(asker, source)
    return session.summary or transcript(asker, {**source, "last": 10})


def compact(asker: Asker, source: Source) -> str:
    text = summary(asker, source)
    if len(text) > COMPACT:
        return f"…{text[-COMPACT:]}"
    return text


def transcript(asker: Asker, source: Source) -> str:
    session = own_session(asker, source)
    number = source.get("last", 10)
    newest = Message.objects.filter(session=session).order_by("-seq")[:number]
    return "\n".join(f"{row.role}: {row.words}" for row in reversed(newest))


def file(asker: Asker, source: Source) -> str:
    row = StoredFile.objects.filter(pk=checked_id(source), owner_id=asker.owner_id).first()
    content = storage.read_stored_file(row) if row else None
    if row is None or content is None:
        raise ToolFailed("there is no such file", code="unknown_file")
    text, note = read_file_text(row, content)
    lines = [f"File {row.name}:", text, note]
    return "\n".join(line for line in lines if line)


def own_session(asker: Asker, source: Source) -> Session:
    """The asker's session, or another one of the same user."""
    session_id = asker.session_id
    if source.get("id"):
        session_id = checked_id(source)
    session = None
    if session_id:
        session = Session.objects.filter(pk=session_id, owner_id=asker.owner_id).first()
    if session is None:
        raise ToolFailed("there is no such session", code="unknown_session")
    return session


def checked_id(source: Source) -> str:
    try:
        return str(UUID(str(source.get("id")).removeprefix("file:")))
    except ValueError:
        raise ToolFailed(f"{source.get('id')!r} is not a valid id", code="unknown_source")


READERS = {"summary": summary, "compact": compact, "session": transcript, "transcript": transcript, "file": file}
