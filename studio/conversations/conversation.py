"""A conversation for the playground: its turns, what their runs did, and the branches at each message."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from agents.http.filters import filter_by_words
from agents.http.pagination import read_page
from runs.events import record as events
from runs.models import Feedback, Message, Run, RunEvent, Session
from runs.models.session import SCHEDULED

from . import message_files

# Newest runs whose tool calls and approvals are shown.
REPLAYED = 40
# Events of these runs.
ENTRIES = 2000
# Branches of one conversation.
FAMILY = 200
# Conversations beside the chat.
LISTED = 60
SHOWN = (
    "run.routed", "model.finished", "tool.called", "tool.denied", "tool.finished", "artifact.created",
    "approval.requested", "approval.decided", "input.requested", "input.answered", "child.started", "run.finished",
)  # fmt: skip


@dataclass
class Branches:
    """A message is the `place`th of `count` that were sent at this point; the neighbours are sessions."""

    place: int
    count: int
    before: UUID | None
    after: UUID | None


@dataclass
class Turn:
    """One message of a person, and what came of it."""

    seq: int
    run_id: Any
    user: Message | None = None
    replies: list[Message] = field(default_factory=list)
    is_live: bool = False
    branches: Branches | None = None


def find_turns(session: Session, limit: int, before: int | None = None) -> tuple[list[Turn], int | None]:
    """The newest messages (before a number), by the message that caused them, and the number before which there are
    earlier ones. A session in progress has live turns.
    """
    rows = session.messages.order_by("-seq")
    if before is not None:
        rows = rows.filter(seq__lt=before)
    newest, has_earlier = read_page(rows, limit)
    session_messages = newest[::-1]
    while has_earlier and len(session_messages) > 1 and session_messages[0].role != Message.Role.USER:
        # An answer stands below its message, on the page before.
        session_messages.pop(0)
    message_files.place_artifacts(session_messages)
    message_files.place_attachments(session_messages, session.owner_id)
    turns = group_turns(session_messages)
    live_run_ids = set(Run.objects.live().filter(session=session).values_list("pk", flat=True))
    branches_at = find_branches(session)
    for turn in turns:
        turn.is_live = turn.run_id in live_run_ids
        if turn.user:
            turn.branches = branches_at(turn.seq)
    earlier = session_messages[0].seq if has_earlier else None
    return turns, earlier


def group_turns(session_messages: Sequence[Message]) -> list[Turn]:
    turns: list[Turn] = []
    for message in session_messages:
        # The first message of a page may be a reply: then its turn has no message of a person.
        if message.role == Message.Role.USER or not turns:
            turns.append(Turn(message.seq, message.made_in))
        if message.role == Message.Role.USER:
            turns[-1].user = message
        elif message.role == Message.Role.ASSISTANT:
            turns[-1].replies.append(message)
    return turns


def stored_events(user: Any, turns: Sequence[Turn]) -> dict[str, list[dict[str, Any]]]:
    """What the ended runs of these turns did, by run, for the script that draws them."""
    run_ids = [turn.run_id for turn in turns if turn.run_id and not turn.is_live]
    own = Run.objects.visible_to(user).filter(pk__in=run_ids[-REPLAYED:], status__in=Run.DONE).values("pk")
    rows = RunEvent.objects.filter(run__in=own, type__in=SHOWN).order_by("-run", "seq")
    by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run_id, type, data in rows.values_list("run_id", "type", "data")[:ENTRIES]:
        by_run[str(run_id)].append({"type": type, "data": shorten_call(type, data)})
    # The limit may have cut one run short: half of it would look as if it were all.
    whole = {run: entries for run, entries in by_run.items() if entries[-1]["type"] == "run.finished"}
    feedback = Feedback.objects.filter(run__in=whole)
    for run_id, rating, note in feedback.values_list("run_id", "rating", "note"):
        whole[str(run_id)].append({"type": "feedback", "data": {"rating": rating, "note": note}})
    return whole


def history(user: Any, here: Session | None, find: str) -> list[Session]:
    """The newest conversations, pinned ones first, then those in folders. The branches of one count as
    one, shown by the newest.
    """
    rows = Session.objects.visible_to(user).active()
    rows = filter_by_words(rows, find, "title")
    rows = rows.only("title", "pinned", "trunk", "folder").order_by("-pk")
    unpinned = rows.filter(pinned=False)
    newest = [
        *rows.filter(pinned=True)[:LISTED],
        *unpinned.filter(folder="")[:LISTED],
        *unpinned.exclude(folder="")[:LISTED],
    ]
    families: dict[UUID, Session] = {}
    for row in newest:
        # A branch knows the session that it came from at first, its trunk.
        trunk = row.trunk or row.pk
        if trunk not in families:
            families[trunk] = row
            row.family = []
            row.is_here = False
        shown_row = families[trunk]
        shown_row.family.append(row.pk)
        if here is not None and row.pk == here.pk:
            shown_row.is_here = True
    return list(families.values())


@dataclass
class Folder:
    name: str
    label: str
    sessions: list[Session]
    is_open: bool


def folders(listed: list[Session]) -> list[Folder]:
    """Those of the listed conversations that are in a folder and not pinned, by the folder's name."""
    by_folder: dict[str, list[Session]] = defaultdict(list)
    for session in listed:
        if session.folder and not session.pinned:
            by_folder[session.folder].append(session)
    result = []
    for name, sessions in sorted(by_folder.items()):
        label = _("Scheduled runs") if name == SCHEDULED else name
        is_open = any(getattr(session, "is_here", False) for session in sessions)
        result.append(Folder(name, label, sessions, is_open))
    return result


def shorten_call(type: str, data: dict[str, Any]) -> dict[str, Any]:
    """Without what the page does not show; long values are cut, and the run's page has them whole."""
    if type == "model.finished":
        return {"turn": data.get("turn"), "text": data.get("text"), "is_cut": data.get("is_cut", False)}
    if type == "run.finished":
        return {name: data.get(name) for name in ("status", "error", "usage", "reply", "is_cut")}
    return {name: events.shorten_event_value(value) for name, value in data.items()}


def find_branches(session: Session) -> Callable[[int], Branches | None]:
    """A function of a message's number: its branches, or None where there is only one. One query."""
    trunk = session.trunk or session.pk
    rows = Session.objects.filter(owner_id=session.owner_id).family(trunk)[:FAMILY]
    family = {session.pk: session} | {row.pk: row for row in rows}
    if len(family) < 2:
        return lambda seq: None

    def origin(pk: UUID, seq: int) -> UUID:
        """The session in which message `seq` of this one was sent."""
        row = family[pk]
        # A branch begins with the messages of the session that it was forked from.
        while row.forked_before is not None and seq < row.forked_before and row.forked_from in family:
            row = family[row.forked_from]
        return row.pk

    def at(seq: int) -> Branches | None:
        here = origin(session.pk, seq)
        before = origin(session.pk, seq - 1)
        origins: set[UUID] = set()
        for pk, row in family.items():
            # Branches meet here if the message before was the same one.
            is_same_path = seq == 1 or origin(pk, seq - 1) == before
            if is_same_path and seq <= row.last_seq:
                origins.add(origin(pk, seq))
        if len(origins) < 2 or here not in origins:
            return None
        in_order = sorted(origins)
        place = in_order.index(here)
        neighbours = [None, *in_order, None]
        return Branches(place + 1, len(in_order), neighbours[place], neighbours[place + 2])

    return at
