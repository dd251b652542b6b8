"""Context for a child session: each source names one thing, and a missing one is refused."""

from typing import Any
from uuid import UUID

from agents import storage
from agents.models import StoredFile
from agents.tools import ToolFailed
from runs.models import Message, Run, Session

LIMIT = 20_000  # characters of one source
COMPACT = 600


def is_untrusted(parent: Run, sources: Any) -> bool:
    """Whether a source may contain untrusted content. They were gathered before, so each exists."""
    return any(
        StoredFile.objects.filter(pk=checked_id(source), untrusted=True).exists()
        if source.get("source") == "file"
        else own_session(parent, source).has_untrusted
        for source in sources
    )


def gather(parent: Run, sources: Any) -> str:
    """The sources' text, one block each. Raises ToolFailed for an unknown source or another user's."""
    if not isinstance(sources, list) or not all(isinstance(source, dict) for source in sources):
        raise ToolFailed(
            'context sources must be a list of objects such as {"source": "summary"}', code="unknown_source"
        )
    return "\n\n".join(read(parent, source) for source in sources)


def read(parent: Run, source: dict[str, Any]) -> str:
    reader = READERS.get(str(source.get("source", "")))
    if reader is None:
        known = ", ".join(sorted(READERS))
        raise ToolFailed(f"unknown context source {source.get('source')!r}; known: {known}", code="unknown_source")
    text = reader(parent, source)
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[cut: {len(text) - LIMIT} more characters]"


def summary(parent: Run, source: dict[str, Any]) -> str:
    session = own_session(parent, source)
    return session.summary or transcript(parent, {**source, "last": 10})


def compact_summary(parent: Run, source: dict[str, Any]) -> str:
    text = summary(parent, source)
    return text if len(text) <= COMPACT else f"…{text[-COMPACT:]}"


def transcript(parent: Run, source: dict[str, Any]) -> str:
    session = own_session(parent, source)
    last = source.get("last", 10)
    if isinstance(last, bool) or not isinstance(last, int):
        raise ToolFailed(f"“last” of a context source must be a whole number, not {last!r}", code="unknown_source")
    last = min(max(last, 1), 200)
    rows = Message.objects.filter(session=session).order_by("-seq")[:last]
    return "\n".join(f"{row.role}: {row.words}" for row in reversed(rows))


def file(parent: Run, source: dict[str, Any]) -> str:
    row = StoredFile.objects.filter(pk=checked_id(source), owner_id=parent.principal_id).first()
    content = storage.read(row) if row else None
    if row is None or content is None:
        raise ToolFailed("there is no such file", code="unknown_file")
    return f"File {row.name}:\n{content.decode('utf-8', 'replace')}"


def own_session(parent: Run, source: dict[str, Any]) -> Session:
    """The parent's session, or another one of the same user."""
    wanted = checked_id(source) if source.get("id") else parent.session_id
    session = Session.objects.filter(pk=wanted, owner_id=parent.principal_id).first() if wanted else None
    if session is None:
        raise ToolFailed("there is no such session", code="unknown_session")
    return session


def checked_id(source: dict[str, Any]) -> str:
    try:
        return str(UUID(str(source.get("id")).removeprefix("file:")))
    except ValueError:
        raise ToolFailed(f"{source.get('id')!r} is not a valid id", code="unknown_source")


READERS = {
    "summary": summary,
    "compact_summary": compact_summary,
    "session": transcript,
    "transcript": transcript,
    "file": file,
}
