"""Conversations that callers send along, and which of their texts the server knows itself.

Some protocols are stateless: the caller repeats the whole conversation in each request. What such a
history holds may come from anybody, whatever role a message claims to have: the caller's program, a
tool of the caller, a page, a stranger whose text an assistant quoted. It is text of unknown origin
(`Message.untrusted`), unless rows prove that this person and this server wrote all of it.

Proof: each conversation of a stateless protocol has a name made from its messages up to the person's
last one (`Session.thread`). The next request contains these messages and the replies to them. If a
session of this person has the name, has exactly these texts, and has read nothing of strangers, the
history is known. Calls that the agent itself made are sent along too; their rows must say the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID

from agents.http.room import check_room
from plumbing import json_values
from runs.models import Message, ModelCall, Session, ToolCallRecord
from runs.models.session import SENT

JSON = Any
CALLERS = "caller"  # the kind of calls that the caller answers
CANDIDATES = 5  # sessions with one name that are compared, newest first


@dataclass(frozen=True, slots=True)
class SentMessage:
    """An earlier message that the caller sends along. `calls` are in the form of Message.tool_calls. `is_sealed`: the
    server wrote and encrypted it, with its own mark.
    """

    role: str
    parts: list[dict[str, JSON]]
    calls: list[dict[str, JSON]] = field(default_factory=list)
    is_sealed: bool = False


def add_sent(session: Session, messages: Sequence[SentMessage], *, is_known: bool = False) -> None:
    """Add these messages to a session, stored or new. Unknown ones mark it as having read strangers' text."""
    if not messages:
        return
    check_room(session.owner_id, *(one.parts for one in messages))
    rows = [
        Message(
            role=one.role,
            content=one.parts,
            tool_calls=one.calls,
            untrusted=not is_known and not one.is_sealed,
        )
        for one in messages
    ]
    is_marked = any(row.untrusted for row in rows) and not session.has_untrusted
    session.has_untrusted = session.has_untrusted or is_marked
    is_stored = not session._state.adding
    session.add_messages(rows)
    if is_marked and is_stored:
        Session.objects.filter(pk=session.pk).update(has_untrusted=True)


def add_made(session: Session, messages: Sequence[SentMessage], *, is_untrusted: bool) -> None:
    """Add what an agent of this server said, and the calls that it made, to a stored session."""
    if not messages:
        return
    has_calls = any(one.calls for one in messages)  # results of the caller's tools among them
    rows = [
        Message(role=one.role, content=one.parts, tool_calls=one.calls, untrusted=is_untrusted or bool(one.calls))
        for one in messages
    ]
    session.add_messages(rows)
    if (is_untrusted or has_calls) and not session.has_untrusted:
        session.has_untrusted = True
        Session.objects.filter(pk=session.pk).update(has_untrusted=True)


def build_history_name(messages: Iterable[SentMessage]) -> str:
    """The name of a conversation whose last message is the person's, or empty if it ends in results of tools."""
    texts = [[one.role, one.parts] for one in messages]
    return SENT + sha256(json_values.dump_json(texts, sort_keys=True)).hexdigest()


def is_known(user: Any, messages: Sequence[SentMessage]) -> bool:
    """Whether a session of this person has exactly these messages, without any text of strangers."""
    places = [place for place, one in enumerate(messages) if one.role == Message.Role.USER]
    if not places:
        return False
    name = build_history_name(messages[: places[-1] + 1])
    sessions = Session.objects.visible_to(user).filter(thread=name, has_untrusted=False).order_by("-pk")
    return any(holds_messages(session, messages) for session in sessions[:CANDIDATES])


def holds_messages(session: Session, sent: Sequence[SentMessage]) -> bool:
    """Whether what is sent is this session, with what its runs said and called before their replies, or without."""
    rest = list(sent)
    for row in session.messages.order_by("seq"):
        if row.run_id and row.role == Message.Role.ASSISTANT:
            drop_working_messages(row, rest)
            calls = []  # the row's own are in what was dropped
        else:
            calls = row.tool_calls
        if not rest:
            return False
        one = rest.pop(0)
        if (one.role, one.parts, one.calls) != (row.role, row.content, calls):
            return False
    return not rest


def drop_working_messages(reply: Message, rest: list[SentMessage]) -> None:
    """Remove what the reply's run said and called before it, as far as the rows of this run prove it."""
    if len(rest) < 2 or rest[1].role != Message.Role.ASSISTANT:
        return  # the reply alone, as most clients send it
    answers = ModelCall.objects.filter(run=reply.run_id, error__isnull=True).values_list("response__text", flat=True)
    texts = [[{"type": "text", "text": text}] for text in answers if text]
    is_done = {"parent_call": None, "outcome": ToolCallRecord.Outcome.OK, "untrusted": False}
    records = ToolCallRecord.objects.filter(run=reply.run_id, **is_done).exclude(kind=CALLERS)
    records_by_id = {record.pk: record for record in records}
    while len(rest) > 1 and rest[0].role == rest[1].role == Message.Role.ASSISTANT:
        sent = rest[0]
        # Doors send the calls in a message of their own, without words.
        is_silent = bool(sent.calls) and sent.parts == [{"type": "text", "text": ""}]
        if not is_silent and sent.parts not in texts:
            return
        if not all(is_recorded_call(call, records_by_id) for call in sent.calls):
            return
        del rest[0]


def is_recorded_call(sent: dict[str, JSON], records_by_id: Mapping[UUID, ToolCallRecord]) -> bool:
    """Whether one of these records has the id, the name, the arguments and the result that are sent."""
    try:
        record = records_by_id.get(UUID(hex=sent["id"].rpartition("_")[2]))
    except ValueError:
        return False
    if record is None:
        return False
    result = record.result
    text = result if isinstance(result, str) else json_values.dump_json(result).decode()
    return (sent["name"], sent["arguments"], sent["result"]) == (record.name, record.arguments, text)
