"""The base of every cloud connector: tools with schemas, and a sync that neither misses nor repeats
a message.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from agents.exceptions import Unavailable
from agents.tools import ToolError, ToolFailed, never
from connectors.content import MAX_CHARS, clean_untrusted_text, unreadable
from connectors.exceptions import CursorExpired, MissingScope
from connectors.logins.providers import get_cloud_service
from connectors.models import Connection, DeliveredItem

from . import ledger
from .http import Api, is_gone

JSON = Any
# How far back the first run of a stream looks.
LOOK_BACK = timedelta(days=7)
# A scan by date overlaps the previous one, since messages may arrive late; the ledger removes duplicates.
OVERLAP = timedelta(days=1)
# Messages read in parallel over one account's connection pool.
AT_ONCE = 8
# Messages that the service did not answer for, while it answered for none, before it is left alone.
MOST_SILENT = 3
# Turns in which a cursor got no answer, before it is given up.
MOST_OUTAGES = 3
# Headers that are kept of a message that cannot be read.
HEADERS = 100
State = DeliveredItem.State
log = logging.getLogger(__name__)
# Errors of the whole account are not the message's fault: the message stays, however often they occur.
OF_THE_ACCOUNT = frozenset(
    [
        "reconnect_needed",
        "missing_scope",
        "rate_limited",
        "service_unavailable",
        "login_unavailable",
        "cancelled",
        "busy",
    ]
)
# Those that are never a message's fault: a service that is silent about one message may have trouble with that one.
ACCOUNT_ERRORS = OF_THE_ACCOUNT - {"service_unavailable"}
# What a service says of a cursor that it cannot use, besides that it is gone.
OF_THE_CURSOR = frozenset(["refused", "not_found", "bad_answer", "too_large"])


@dataclass(frozen=True, slots=True)
class Operation:
    """One public method as a tool."""

    method: str
    description: str
    effect: str
    access: str
    properties: dict[str, JSON]
    required: tuple[str, ...] = ()

    @property
    def input_schema(self) -> dict[str, JSON]:
        return {
            "type": "object",
            "properties": {**self.properties, "account": ACCOUNT},
            "required": list(self.required),
            "additionalProperties": False,
        }


ACCOUNT = {"type": "string", "maxLength": 254, "description": "The name of the account, if several are connected."}
TEXT = {"type": "string", "maxLength": 100_000}
WORD = {"type": "string", "minLength": 1, "maxLength": 512}
WORDS = {"type": "array", "items": WORD, "maxItems": 50}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
CHARS = {
    "type": "integer", "minimum": 100, "maximum": MAX_CHARS, "default": 8000,
    "description": "Maximum characters of each text; a longer text is cut and marked.",
}  # fmt: skip


def operation(description: str, *, effect: str, access: str, required: tuple[str, ...] = (), **properties: JSON) -> Any:
    """Makes a method a tool; its arguments are the schema's properties."""

    def mark(method: Callable[..., JSON]) -> Callable[..., JSON]:
        one = Operation(method.__name__, description, effect, access, properties, required)
        method.operation = one  # type: ignore[attr-defined]
        return method

    return mark


@dataclass(slots=True)
class Discovery:
    """Receives what a scan finds, before the cursor moves."""

    connection: Connection
    stream: str
    total: int = 0

    def add(self, ids: Iterable[str], place: str = "") -> None:
        count = ledger.note_found(self.connection, self.stream, ids, place)
        self.total += count


@dataclass(slots=True)
class Batch:
    """The result of one sync call."""

    messages: list[dict[str, JSON]] = field(default_factory=list)
    errors: list[dict[str, JSON]] = field(default_factory=list)
    has_more: bool = False

    def as_json(self) -> dict[str, JSON]:
        return {"messages": self.messages, "errors": self.errors, "has_more": self.has_more}


class Connector:
    """The code of one cloud service, working for one connection."""

    provider: ClassVar[str]

    def __init__(self, connection: Connection, api: Api, *, is_cancelled: Callable[[], bool] = never) -> None:
        self.connection = connection
        self.api = api
        self.is_cancelled = is_cancelled

    @classmethod
    def operations(cls) -> Iterator[Operation]:
        for name in dir(cls):
            method = getattr(cls, name)
            if operation := getattr(method, "operation", None):
                yield operation

    def require(self, access: str) -> None:
        """Raises MissingScope before anything is sent if the user did not grant this access."""
        service = get_cloud_service(self.provider)
        needed = [one.scope for one in service.scopes if one.access == access]
        granted = {shorten_scope(scope) for scope in self.connection.scopes}
        # Some services do not say which scopes they granted; then the first call shows whether one is missing.
        if not granted or not needed:
            return
        for scope in self.wider(needed):
            if shorten_scope(scope) in granted:
                return
        raise MissingScope(self.connection, access)

    def wider(self, scopes: list[str]) -> list[str]:
        """Scopes that include these."""
        return scopes

    # -- each service's own ------------------------------------------------------------------------------------------

    def walk(
        self, cursor: dict[str, JSON], filters: dict[str, JSON], since: datetime, discovery: Discovery
    ) -> dict[str, JSON]:
        """Put everything new into `discovery` and return the next cursor. Raises CursorExpired."""
        raise NotImplementedError

    def fetch(self, item: DeliveredItem, filters: dict[str, JSON], max_chars: int) -> dict[str, JSON] | None:
        """One message in full, or None if the filters exclude it. Raises ToolFailed."""
        raise NotImplementedError

    def check(self) -> str:
        """Ask the service for the account's name. Raises ToolFailed."""
        raise NotImplementedError

    def read_safely(
        self, build: Callable[[], dict[str, JSON]], id: str, headers: Any, *, date: str = "", place: str = ""
    ) -> dict[str, JSON]:
        """The message that `build` makes; if that fails for what is in the message, the message as one that cannot
        be read. `headers` is what the service sent. Raises ToolError.
        """
        try:
            return build()
        except ToolError:
            raise
        except Unavailable as error:
            # The processes that read messages are busy: nothing is wrong with this one.
            raise ToolFailed(str(error), code="busy") from None
        except Exception:
            # Strangers write messages: whatever is in one, the others are read.
            log.exception("A message of %s cannot be read: %s", self.connection, id)
            return unreadable(id, raw_headers(headers), date=date, place=place)

    # -- the sync ----------------------------------------------------------------------------------------------------

    def sync(self, call_id: str, limit: int, max_chars: int, filters: dict[str, JSON]) -> dict[str, JSON]:
        """The next messages that no other call received. Repeating the same call returns the same
        messages.
        """
        stream = ledger.build_stream_key(filters)
        items = ledger.list_claimed_items(self.connection, call_id)
        if not items:
            self.discover(stream, filters)
            items = ledger.claim_oldest_items(self.connection, stream, call_id, limit)
        batch = self.read_all(items, filters, max_chars)
        batch.has_more = ledger.has_more(self.connection, stream)
        self.connection.mark_ok()
        return batch.as_json()

    def discover(self, stream: str, filters: dict[str, JSON]) -> None:
        """Bring the ledger up to date, then move the cursor, so that an interrupted sync finds the
        same messages again.
        """
        self.connection.refresh_from_db(fields=["cursor"])
        cursor = self.connection.cursor.get(stream, {})
        started = timezone.now()
        discovery = Discovery(self.connection, stream)
        floor = started - LOOK_BACK
        if cursor.get("floor"):
            floor = parse_datetime(cursor["floor"])
        since = self.scan_from(cursor, floor)
        # Without its place in the list, a cursor stands for a scan by date.
        by_date = {"floor": cursor.get("floor")}
        try:
            following = self.walk(cursor, filters, since, discovery)
        except CursorExpired:
            following = self.walk(by_date, filters, since, discovery)
        except ToolFailed as error:
            if not self.may_be_cursor(stream, cursor, error):
                raise
            following = self.walk(by_date, filters, since, discovery)
        times = {"floor": floor.isoformat(), "synced_at": started.isoformat()}
        ledger.save_cursor(self.connection, stream, {**following, **times})

    def may_be_cursor(self, stream: str, cursor: dict[str, JSON], error: ToolFailed) -> bool:
        """Whether the service may fail for what the cursor says, so that a scan by date is worth a try."""
        place = cursor.keys() - {"floor", "synced_at", "outages"}
        if not place:
            return False
        if error.code in OF_THE_CURSOR:
            return True
        if error.code != "service_unavailable":
            return False
        # A short outage is no reason to scan anew; one that returns with this cursor may be caused by it.
        outages = cursor.get("outages", 0) + 1
        ledger.save_cursor(self.connection, stream, {**cursor, "outages": outages})
        return bool(outages % MOST_OUTAGES == 0)

    def scan_from(self, cursor: dict[str, JSON], floor: datetime) -> datetime:
        """Where a scan by date begins: seven days back on the first run, else a day before the last
        one.
        """
        if not cursor.get("synced_at"):
            return floor
        last = parse_datetime(cursor["synced_at"])
        if last is None:
            return floor
        return max(floor, last - OVERLAP)

    def read_all(self, items: list[DeliveredItem], filters: dict[str, JSON], max_chars: int) -> Batch:
        """Read the claimed messages, several at once. One that fails is reported and retried by the
        next call; after the last attempt it is delivered as one that cannot be read.
        """
        batch = Batch()
        outcomes: dict[int, tuple[str, str]] = {}
        stopped: ToolError | None = None
        try:
            readings = list(self.read_each(items, filters, max_chars))
            is_answering = self.is_answering(readings)
            for reading in readings:
                item, error = reading.item, reading.error
                if reading.is_silent and reading.was_asked and is_answering:
                    # The service answers for others: it is this message that it cannot give.
                    error = ToolFailed(str(error), code="unreadable")
                outcomes[item.pk] = choose_item_outcome(reading.message, error)
                if reading.message is not None:
                    batch.messages.append(reading.message)
                elif error is not None and error.code in OF_THE_ACCOUNT:
                    stopped = stopped or error
                elif error is not None and not is_gone(error):
                    self.report_failure(item, error, batch)
        finally:
            # Whatever happens, no message stays claimed by a call that has ended.
            ledger.record_item_outcomes(items, lambda item: outcomes.get(item.pk, (State.FOUND, "")))
        if stopped is not None and not batch.messages and not batch.errors:
            raise stopped
        return batch

    def report_failure(self, item: DeliveredItem, error: ToolError, batch: Batch) -> None:
        """List a message that failed; the last time, deliver what is known of it."""
        failure = describe_error(item.external_id, error)
        failure["attempts"] = item.attempts
        batch.errors.append(failure)
        if item.attempts < ledger.ATTEMPTS:
            return
        # The id within its place: Teams puts the place before it.
        id = item.external_id.rpartition("|")[2]
        reason = f"This message could not be read in {item.attempts} attempts: {str(error)[:200]}"
        message = unreadable(id, {}, place=item.place, reason=reason)
        batch.messages.append(message)

    def is_answering(self, readings: list["Read"]) -> bool:
        """Whether the service answers at all, while it is silent about some messages."""
        if not any(one.is_silent for one in readings):
            return True
        for one in readings:
            if one.error is None or one.error.code not in OF_THE_ACCOUNT:
                return True
        return self.is_reachable()

    def is_reachable(self) -> bool:
        """Whether the service answers for the account itself."""
        try:
            self.check()
        except ToolError:
            return False
        return True

    def read_each(self, items: list[DeliveredItem], filters: dict[str, JSON], max_chars: int) -> Iterator["Read"]:
        # An error of the account stops the rest of the batch: the service is not asked again. A service that is silent
        # about a few messages may have trouble with those only.
        hindered: list[ToolError] = []
        silent: list[ToolError] = []
        answered: list[int] = []

        def read(item: DeliveredItem) -> Read:
            if self.is_cancelled():
                return Read(item, error=ToolFailed("The run was cancelled.", code="cancelled"), was_asked=False)
            if hindered:
                return Read(item, error=hindered[0], was_asked=False)
            try:
                message = self.fetch(item, filters, max_chars)
            except ToolError as error:
                note_error(item, error)
                return Read(item, error=error)
            except Exception:
                # One message never stops the others.
                log.exception("A message of %s cannot be read: %s", self.connection, item.external_id)
                why = "This message cannot be read; the server's log says why."
                return Read(item, error=ToolFailed(why, code="unreadable"))
            answered.append(item.pk)
            return Read(item, message)

        def note_error(item: DeliveredItem, error: ToolError) -> None:
            is_of_account = error.code in ACCOUNT_ERRORS
            if error.code == "service_unavailable":
                silent.append(error)
            elif not is_of_account:
                answered.append(item.pk)
            is_mute = len(silent) >= MOST_SILENT and not answered
            if is_of_account or is_mute:
                hindered.append(error)

        if len(items) < 2:
            yield from map(read, items)
            return
        # The time limit of this call stands in its context, and also applies in the threads.
        contexts = [copy_context() for _ in items]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix=self.provider) as pool:
            yield from pool.map(lambda context, item: context.run(read, item), contexts, items)


@dataclass(frozen=True, slots=True)
class Read:
    """What came of one message: itself, None if the filters exclude it, or an error."""

    item: DeliveredItem
    message: dict[str, JSON] | None = None
    error: ToolError | None = None
    was_asked: bool = True

    @property
    def is_silent(self) -> bool:
        return self.error is not None and self.error.code == "service_unavailable"


def shorten_scope(scope: str) -> str:
    """The last part of a scope: services write some of them with an address before it, and some without."""
    return scope.lower().rsplit("/", 1)[-1]


def describe_error(id: str, error: ToolError) -> dict[str, JSON]:
    message = str(error)[:300]
    return {"id": id, "code": error.code, "message": message}


def raw_headers(headers: Any) -> dict[str, str]:
    """The headers of a message that cannot be read: a list of {name, value}, or an object of plain fields."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(headers, dict):
        pairs = list(headers.items())
    elif isinstance(headers, list):
        pairs = [(row.get("name"), row.get("value")) for row in headers if isinstance(row, dict)]
    headers_by_name: dict[str, str] = {}
    for name, value in pairs[:HEADERS]:
        if not isinstance(value, str):
            continue
        key = clean_untrusted_text(str(name)).lower()
        text = clean_untrusted_text(value)
        headers_by_name.setdefault(key[:100], text[:1000])
    return headers_by_name


def choose_item_outcome(message: dict[str, JSON] | None, error: ToolError | None) -> tuple[str, str]:
    """The ledger's entry for an item after the attempt to read it."""
    if error is None:
        if message is None:
            return State.GONE, "excluded by the filters"
        return State.DELIVERED, ""
    # The account's trouble says nothing of the message: the next call reads it again.
    if error.code in OF_THE_ACCOUNT:
        return State.FOUND, str(error)
    if is_gone(error):
        return State.GONE, str(error)
    return State.FAILED, str(error)


def matches(message: dict[str, JSON], filters: dict[str, JSON]) -> bool:
    """Filters by sender and words, for services that cannot filter a delta query by them."""
    sender = message["from"].lower()
    senders = filters.get("senders") or []
    if senders and not any(word.lower() in sender for word in senders):
        return False
    words = filters.get("query", "").lower().split()
    text = f"{message['subject']}\n{message['text']}\n{sender}".lower()
    return all(word in text for word in words)
