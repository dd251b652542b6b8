"""Records what happens in a run: a numbered row, then a broadcast after the commit.

Deltas of a reply are only broadcast; the text so far is stored for readers who join later.
"""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import redis
from django.db import transaction
from uuid_utils.compat import uuid7

from agents.http.room import WHOLE
from agents.http.sizes import measure
from plumbing import clock, json_values
from plumbing.broker import broadcast
from plumbing.broker.announcements import format_line
from plumbing.broker.broadcast import name_channel
from plumbing.statements import Question, insert_plain, take_numbers
from runs.models import EventPayload, Run, RunEvent
from runs.models.run import add_stored

from . import outbox
from .waiting import ENDS

# The complete list: docs/reference/events.md describes each type, and a test compares.
TYPES = {
    "run.queued": "The message was accepted; data: trigger, agent.",
    "run.routed": "The router chose an agent; data: agent, method, reason, candidates.",
    "run.started": "A worker took the run; data: attempt.",
    "run.waiting": "The run waits without a worker; data: waiting_for, until.",
    "run.resumed": "The wait is over and the run continues; data: attempt.",
    "run.recovered": "A worker died and another took over; data: attempt.",
    "run.progress": "An external executor reported progress; data: message, fraction (0 to 1, or null).",
    "run.cancel_requested": "A user asked to stop the run; data: by, reason.",
    "run.finished": "The run ended; data: status, reply, output, error, usage, counts.",
    "message.delta": "A piece of the reply as it is written; not stored; data: turn, offset, text.",
    "reasoning.delta": "A piece of what the model thinks before its reply; not stored; data: turn, offset, text.",
    "model.finished": "The model answered; data: turn, model, text, tool_calls, finish, tokens, cost, wall_ms.",
    "model.failed": "The model did not answer; data: turn, code, message.",
    "tool.called": "A tool call was recorded; data: id, name, arguments, kind, refused (it will not be made).",
    "tool.denied": "Policy refused a call; data: id, name, reason.",
    "tool.log": "A tool wrote a log line; data: id, message.",
    "tool.progress": "A tool reported progress; data: id, message, fraction.",
    "tool.finished": "A call has its result; data: id, name, outcome, result, error, wall_ms.",
    "hook.applied": "A hook denied or replaced something; data: hook, place, scope, function, verdict, reason, tool.",
    "memory.recalled": "Memories were put into the prompt; data: memories (id, version, because), left_out.",
    "artifact.created": "A call made a file; data: file, name, media_type, size, untrusted, call.",
    "approval.requested": "An approval is needed; data: id, call, tool, arguments, expires_at, default.",
    "approval.decided": "The approval was decided or expired; data: id, call, status, by, note.",
    "input.requested": "The run asks for an answer; data: id, kind, name, prompt, schema, arguments, expires_at.",
    "input.answered": "The answer came, was declined or expired; data: id, call, kind, status, by.",
    "child.chosen": "A delegated task found its agent; data: id, capability, agent, reason, candidates.",
    "child.started": "A child run was started; data: run, agent or chain.",
    "child.finished": "A child run ended; data: run, status.",
    "step.started": "A chain step started; data: step, key, item.",
    "step.finished": "A chain step ended; data: step, key, item, status.",
    "step.waiting": "A chain step waits; data: step, key, item, until.",
    "chain.progress": "A for_each step moved on; data: key, done, failed, total.",
    "tools.missing": "The agent's tools that are not shared with everybody the run works for; data: tools.",
    "stuck.warned": "The run repeats itself and was warned; data: reason.",
    "context.shortened": "The conversation was too long for the model, and less of it is shown; data: turn, left_out, "
    "characters.",
    "session.summarised": "Older messages were summarised; data: to.",
}
# Bytes of JSON; larger data is stored in a row of its own and cut in the broadcast.
LARGE = 16_000
# Characters of a value in data that was cut.
SHORTENED = 2000
# Waits that are announced to those who wait for the run's end.
FOR_SOMEBODY = ("input", "approval")
TEXT_KEPT_S = 600
# A promised watcher has subscribed by then.
EXPECTED_S = 10


def name_event_channel(run_id: Any) -> bytes:
    """The channel of a run's events; `name_delta_channel` is the channel of the pieces of its reply."""
    return name_channel("run", run_id)


def name_delta_channel(run_id: Any) -> bytes:
    return name_channel("run", run_id, "deltas")


Entry = tuple[str, dict[str, Any]]


def record_event(run: Run, type: str, data: dict[str, Any] | None = None) -> None:
    """One event: row now, broadcast on commit."""
    record_many(run, [(type, data or {})])


def record_many(run: Run, entries: Iterable[Entry]) -> None:
    """Several events in order: one number range, one insert, one publish. None after the run has ended."""
    entries = list(entries)
    if entries:
        with transaction.atomic(savepoint=False):
            record_events_and_change(run, entries, where={"status": Run.LIVE})


def record_events_and_change(
    run: Run,
    entries: list[Entry],
    *,
    where: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    asking: Sequence[Question] = (),
) -> list[bool] | None:
    """Events together with a change of the run's row, in one statement: `values` are set if `where`
    still holds.

    Returns the answers of the queries in it; None, with nothing written, if it does not hold. Must
    be called in a transaction.
    """
    heard = list_webhook_questions(run, entries)
    texts = [json_values.dump_json(data) for _, data in entries]
    values = {**(values or {}), "stored": add_stored(measure_growth(run, texts))} if texts else values
    numbers = take_numbers(
        Run, run.pk, "last_event", len(entries), where=where, values=values, asking=[*asking, *heard]
    )
    if numbers is None:
        return None
    last, *answers = map(int, numbers)
    write_events(run, entries, last, is_heard=bool(heard and answers.pop()), texts=texts)
    return list(map(bool, answers))


def list_webhook_questions(run: Run, entries: Sequence[Entry]) -> list[Question]:
    """The question whether the run's person has a webhook or a trigger, if one may want these events."""
    if not outbox.tells(entries):
        return []
    return [outbox.HEARD.any(owner=run.principal_id)]


def change_run(
    run: Run,
    status: str,
    entries: Sequence[Entry] = (),
    *,
    where: dict[str, Any] | None = None,
    asking: Sequence[Question] = (),
    **values: Any,
) -> list[bool] | None:
    """`Run.change` together with its events. Must be called in a transaction."""
    heard = list_webhook_questions(run, entries)
    texts = [json_values.dump_json(data) for _, data in entries]
    growth = measure_growth(run, texts)
    answers = run.change(status, where=where, numbers=len(entries), grown=growth, asking=[*asking, *heard], **values)
    if answers is not None:
        write_events(run, entries, run.last_event, is_heard=bool(heard and answers.pop()), texts=texts)
    return answers


def measure_growth(run: Run, texts: Sequence[bytes]) -> int:
    """About how many bytes are stored with these events: each repeats what the row of a call, an answer or a message
    holds, and in a chain that of its step.
    """
    times = 3 if run.chain_version_id else 2
    raw, run.raw_bytes = run.raw_bytes, 0
    return raw + times * sum(map(len, texts))


def count_raw(run: Run, request: Any) -> None:
    """A request to a model is kept as it was sent: it counts with the event of the answer."""
    run.raw_bytes += measure(request, WHOLE)


def write_events(run: Run, entries: Sequence[Entry], last: int, *, is_heard: bool, texts: Sequence[bytes] = ()) -> None:
    """Insert events whose numbers, up to `last`, are reserved, and write what others listen for;
    broadcast on commit. `texts`: the data of each as JSON, if it was made already.
    """
    unknown = [type for type, _ in entries if type not in TYPES]
    if unknown:
        raise ValueError(f"unknown event types {unknown}; add them to runs.events.TYPES and the docs")
    if entries:
        run.last_event = last
        now = clock.near()
        first = last - len(entries) + 1
        texts = texts or [json_values.dump_json(data) for _, data in entries]
        rows = [
            NewEvent(run, first + place, type, now, data, text)
            for place, ((type, data), text) in enumerate(zip(entries, texts, strict=True))
        ]
        insert_plain(RunEvent, [row.columns for row in rows])
        if is_heard:
            outbox.put(run, entries)
        payloads = [EventPayload(event_id=row.columns.id, data=row.whole) for row in rows if row.is_cut]
        if payloads:
            EventPayload.objects.bulk_create(payloads)
        messages = write_messages(run, rows)
        transaction.on_commit(lambda: broadcast.publish_unconfirmed(messages))


@dataclass(frozen=True, slots=True)
class EventColumns:
    """A row of RunEvent that is about to be stored."""

    id: UUID
    run_id: UUID
    seq: int
    type: str
    at: datetime
    data: json_values.JsonText


class NewEvent:
    """An event with its data as JSON, which is made once: for the row, for those who watch, and to see how large it is.
    Large data is kept as a whole for a row of its own.
    """

    __slots__ = ("columns", "is_cut", "json", "whole")

    def __init__(self, run: Run, seq: int, type: str, at: datetime, data: dict[str, Any], text: bytes) -> None:
        self.whole = data
        self.json = text
        self.is_cut = len(self.json) > LARGE
        if self.is_cut:
            self.json = json_values.dump_json(
                {key: shorten_event_value(value) for key, value in data.items()} | {"is_cut": True}
            )
        self.columns = EventColumns(uuid7(), run.pk, seq, type, at, json_values.JsonText(self.json.decode()))

    def frame(self) -> bytes:
        """The JSON of `serialize_event`."""
        event = self.columns
        at = format_moment(event.at)
        # Put together by hand: the data is JSON already.
        start = f'{{"run":"{event.run_id}","seq":{event.seq},"type":"{event.type}","at":"{at}","data":'
        return start.encode() + self.json + b"}"


def write_messages(run: Run, rows: Sequence[NewEvent]) -> list[tuple[bytes, broadcast.Message]]:
    """What is published of these events: each to those who watch the run; the end, or that the run waits for
    somebody, also to those who wait for its answer.
    """
    channel = name_event_channel(run.pk)
    messages: list[tuple[bytes, broadcast.Message]] = [(channel, row.frame()) for row in rows]
    for row in rows:
        type = row.columns.type
        if type == "run.finished":
            # Data that was cut is not the answer: whoever waits reads it from the row.
            answer = None if row.is_cut else row.json
            messages.append((ENDS.channel, format_line(run.pk, answer)))
        elif type == "run.waiting" and row.whole.get("waiting_for") in FOR_SOMEBODY:
            messages.append((ENDS.channel, format_line(run.pk, None)))
    return messages


def shorten_event_value(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) <= SHORTENED:
        return value
    return f"{text[:SHORTENED]}…"


def serialize_event(event: RunEvent) -> dict[str, Any]:
    return {
        "run": str(event.run_id),
        "seq": event.seq,
        "type": event.type,
        "at": format_moment(event.at),
        "data": event.data,
    }


def format_moment(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Deltas:
    """The text of one reply, and what the model thinks before it, for those who watch: the first piece at once, then
    one message every `every` seconds.
    """

    def __init__(self, run_id: Any, turn: int, *, every: float = 0.05) -> None:
        self.run_id = str(run_id)
        self.turn = turn
        self.every = every
        self.text = ""
        # Characters of the text that were published.
        self.sent = 0
        self.thoughts = ""
        self.sent_thoughts = 0
        # When something was published last, on the monotonic clock.
        self.last = 0.0

    def write(self, piece: str) -> None:
        self.text += piece
        self.flush_if_due()

    def think(self, piece: str) -> None:
        self.thoughts += piece
        self.flush_if_due()

    def flush_if_due(self) -> None:
        if time.monotonic() - self.last >= self.every:
            self.flush()

    def flush(self) -> None:
        if self.sent_thoughts < len(self.thoughts):
            self.publish("reasoning.delta", self.sent_thoughts, self.thoughts)
            self.sent_thoughts = len(self.thoughts)
        if self.sent < len(self.text):
            keep_text(self.run_id, self.turn, self.text)
            self.publish("message.delta", self.sent, self.text)
            self.sent = len(self.text)

    def publish(self, type: str, offset: int, text: str) -> None:
        """What comes behind the offset."""
        data = {"turn": self.turn, "offset": offset, "text": text[offset:]}
        message = {"run": self.run_id, "seq": None, "type": type, "data": data}
        broadcast.publish_message(name_delta_channel(self.run_id), message)
        self.last = time.monotonic()


def keep_text(run_id: Any, turn: int, text: str) -> None:
    key = name_channel("text", run_id)
    kept = json.dumps({"turn": turn, "text": text})
    try:
        broadcast.server_connection().ask(("SET", key, kept, "EX", TEXT_KEPT_S))
    except redis.RedisError:
        # Only late joiners miss something, and the finished message contains all of it.
        pass


def text_so_far(run_id: Any) -> dict[str, Any] | None:
    """{"turn", "text"} of the reply being written now, or None."""
    key = name_channel("text", run_id)
    try:
        (kept,) = broadcast.server_connection().ask(("GET", key))
    except redis.RedisError:
        return None
    if not kept:
        return None
    return json.loads(kept)


def has_watchers(run_id: Any) -> bool:
    """Whether deltas have a reader now or will in a moment. Otherwise the model is asked for the
    whole answer at once.
    """
    subscribers = ("PUBSUB", "NUMSUB", name_delta_channel(run_id))
    promised = ("EXISTS", name_channel("watched", run_id))
    try:
        (_, count), is_expected = broadcast.server_connection().ask(subscribers, promised)
    except redis.RedisError:
        return False
    return bool(count or is_expected)


def expect_watcher(run_id: Any) -> None:
    """Announce a reader before the run is queued: a worker may be faster than the subscription."""
    key = name_channel("watched", run_id)
    try:
        broadcast.server_connection().ask(("SET", key, "1", "EX", EXPECTED_S))
    except redis.RedisError:
        # They receive the whole answer.
        pass
