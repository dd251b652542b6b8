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

REPLAYED = 40  # newest runs whose tool calls and approvals are shown
ENTRIES = 2000  # events of them
FAMILY = 200  # branches of one conversation
LISTED = 60  # conversations beside the chat
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
        session_messages.pop(0)  # an answer stands below its message, on the page before
    message_files.place_artifacts(session_messages)
    message_files.place_attachments(session_messages, session.owner_id)
    turns: list[Turn] = []
    for message in session_messages:
        if message.role == Message.Role.USER or not turns:
            turns.append(Turn(message.seq, message.made_in))
        if message.role == Message.Role.USER:
            turns[-1].user = message
        elif message.role == Message.Role.ASSISTANT:
            turns[-1].replies.append(message)
    live = set(Run.objects.live().filter(session=session).values_list("pk", flat=True))
    around = find_branches(session)
    for turn in turns:
        turn.is_live = turn.run_id in live
        turn.branches = around(turn.seq) if turn.user else None
    return turns, session_messages[0].seq if has_earlier else None


def stored_events(user: Any, turns: Sequence[Turn]) -> dict[str, list[dict[str, Any]]]:
    """What the ended runs of these turns did, by run, for the script that draws them."""
    run_ids = [turn.run_id for turn in turns if turn.run_id and not turn.is_live][-REPLAYED:]
    own = Run.objects.visible_to(user).filter(pk__in=run_ids, status__in=Run.DONE).values("pk")
    rows = RunEvent.objects.filter(run__in=own, type__in=SHOWN).order_by("-run", "seq")
    by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run_id, type, data in rows.values_list("run_id", "type", "data")[:ENTRIES]:
        by_run[str(run_id)].append({"type": type, "data": shorten_call(type, data)})
    whole = {run: entries for run, entries in by_run.items() if entries[-1]["type"] == "run.finished"}
    for run_id, rating, note in Feedback.objects.filter(run__in=whole).values_list("run_id", "rating", "note"):
        whole[str(run_id)].append({"type": "feedback", "data": {"rating": rating, "note": note}})
    return whole


def history(user: Any, here: Session | None, find: str) -> list[Session]:
    """The newest conversations, pinned ones first, then those in folders. The branches of one count as
    one, shown by the newest.
    """
    rows = Session.objects.visible_to(user).active()
    rows = filter_by_words(rows, find, "title")
    shown = rows.only("title", "pinned", "trunk", "folder")
    newest = [
        *shown.filter(pinned=True).order_by("-pk")[:LISTED],
        *shown.filter(pinned=False, folder="").order_by("-pk")[:LISTED],
        *shown.exclude(folder="").filter(pinned=False).order_by("-pk")[:LISTED],
    ]
    families: dict[UUID, Session] = {}
    for row in newest:
        first = families.setdefault(row.trunk or row.pk, row)
        first.family = [*getattr(first, "family", []), row.pk]
        first.is_here = getattr(first, "is_here", False) or (here is not None and row.pk == here.pk)
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
    for one in listed:
        if one.folder and not one.pinned:
            by_folder[one.folder].append(one)
    return [
        Folder(
            name,
            _("Scheduled runs") if name == SCHEDULED else name,
            rows,
            any(getattr(row, "is_here", False) for row in rows),
        )
        for name, rows in sorted(by_folder.items())
    ]


def shorten_call(type: str, data: dict[str, Any]) -> dict[str, Any]:
    """Without what the page does not show; long values are cut, and the run's page has them whole."""
    if type == "model.finished":
        return {"turn": data.get("turn"), "text": data.get("text"), "is_cut": data.get("is_cut", False)}
    if type == "run.finished":
        return {name: data.get(name) for name in ("status", "error", "usage", "reply", "is_cut")}
    return {name: events.cut(value) for name, value in data.items()}


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
        while row.forked_before is not None and seq < row.forked_before and row.forked_from in family:
            row = family[row.forked_from]
        return row.pk

    def at(seq: int) -> Branches | None:
        here = origin(session.pk, seq)
        same = [pk for pk in family if seq == 1 or origin(pk, seq - 1) == origin(session.pk, seq - 1)]
        sent = sorted({origin(pk, seq) for pk in same if seq <= family[pk].last_seq})
        if len(sent) < 2 or here not in sent:
            return None
        place = sent.index(here)
        neighbours = [None, *sent, None]
        return Branches(place + 1, len(sent), neighbours[place], neighbours[place + 2])

    return at
