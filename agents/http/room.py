"""How much one person's runs and conversations hold, and whether there is room for more.

Each message, each run with a large input and each direct call of a function stores how large it is; each run adds up
what its events, calls and results take. Summing that takes a while for somebody with many of them, so a process asks
only once a person has sent or made much since the last time. What their newer runs made is looked at every few
seconds: those are few. What a person stores in between is a small part of what they may have.

Visitors of a person's embeds have room of their own, a part of the person's: what strangers write never keeps the
person from working. The rows are those of apps above this one, so they are named and not imported.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from cachetools import TTLCache
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import QuerySet, Sum
from django.utils.translation import gettext_noop as _
from uuid_utils.compat import uuid7

from agents.exceptions import Conflict
from agents.http.sizes import measure

WHOLE = 1 << 62  # for `measure`: count to the end
VISITORS_PART = 4  # of the quota, for the visitors of all embeds of a person
ASKED_EVERY = 16  # parts of the quota that somebody sends between two questions
ASKED_AGAIN_S = 2.0  # seconds between two questions for somebody who has no room…
LOOKED_EVERY_S = 5.0  # … and between two looks at what newer runs made…
MOST_WAIT_S = 60.0  # … and at the latest after so long
LOOKS_COST = 200  # … and so many times the seconds that the last one took
REMEMBERED_S = 86_400.0
MOST_PEOPLE = 10_000


class SizeField(models.PositiveIntegerField):
    """How many bytes other fields of a new row take as JSON. `least`: below it the row counts as nothing."""

    def __init__(self, *args: Any, of: tuple[str, ...] = (), least: int = 0, **more: Any) -> None:
        super().__init__(*args, **more)
        self.of, self.least = of, least

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "of": self.of, "least": self.least}

    def pre_save(self, model_instance: Any, add: bool) -> Any:
        if add:
            size = sum(measure(getattr(model_instance, name), WHOLE) for name in self.of)
            setattr(model_instance, self.attname, size if size >= self.least else None)
        return super().pre_save(model_instance, add)


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose rows are counted: a person's own, or those of the visitors of their embeds."""

    owner_id: int
    is_visitors: bool = False

    @property
    def most(self) -> int:
        """Bytes; 0 means no limit."""
        quota: int = settings.RUN_BYTES_PER_PERSON
        return quota // VISITORS_PART if self.is_visitors else quota

    def find_runs(self) -> QuerySet[Any]:
        rows = apps.get_model("runs", "Run").objects.filter(principal=self.owner_id)
        return rows.filter(embed__isnull=not self.is_visitors)

    def find_messages(self) -> QuerySet[Any]:
        rows = apps.get_model("runs", "Message").objects.filter(session__owner=self.owner_id)
        return rows.filter(session__metadata__embed__isnull=not self.is_visitors)

    def find_calls(self) -> QuerySet[Any]:
        """Direct calls of functions. What runs call is counted with them."""
        rows = apps.get_model("functions", "Execution").objects.filter(principal=self.owner_id, run=None)
        return rows.none() if self.is_visitors else rows


@dataclass(slots=True)
class Usage:
    """What a process knows of a holder: what was stored when it asked, and what they sent since."""

    stored: int = 0
    ask_at: float = 0.0
    sent: int = 0
    since: UUID = field(default_factory=uuid7)  # the first run whose results are not in `stored`
    before: int = 0  # what the runs from there on had made when the process asked
    made: int = 0
    look_at: float = 0.0

    @property
    def more(self) -> int:
        return self.sent + self.made

    @property
    def total(self) -> int:
        return self.stored + self.more


class Rooms:
    """What this process knows of each holder."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: TTLCache[Holder, Usage] = TTLCache(MOST_PEOPLE, REMEMBERED_S)

    def check(self, holder: Holder, more: int) -> None:
        """Raises Conflict if the runs of this holder hold as much as they may."""
        most = holder.most
        if not most:
            return
        usage = self.find(holder)
        usage.sent += more
        if time.monotonic() >= usage.look_at:
            look(holder, usage)
        if usage.more >= most // ASKED_EVERY:
            ask(holder, usage, more)
        if usage.total <= most:
            return
        if time.monotonic() >= usage.ask_at:  # some may have been deleted
            ask(holder, usage, more)
        if usage.total > most:
            # Another thread may have counted anew meanwhile.
            usage.sent = max(0, usage.sent - more)
            raise refusal(holder)

    def find(self, holder: Holder) -> Usage:
        with self.lock:
            return self.holders.setdefault(holder, Usage())


def ask(holder: Holder, usage: Usage, more: int) -> None:
    begun = time.monotonic()
    usage.since = find_first_live(holder) or uuid7()
    usage.before, usage.made = count_made(holder, usage.since), 0
    usage.stored, usage.sent = count_stored(holder), more
    usage.ask_at = find_next_moment(begun, ASKED_AGAIN_S)


def look(holder: Holder, usage: Usage) -> None:
    begun = time.monotonic()
    usage.made = max(0, count_made(holder, usage.since) - usage.before)
    usage.look_at = find_next_moment(begun, LOOKED_EVERY_S)


def find_next_moment(begun: float, least_s: float) -> float:
    """When to do again what began then: it may take half a percent of the time, but who makes room is heard soon."""
    now = time.monotonic()
    return now + min(max(least_s, LOOKS_COST * (now - begun)), MOST_WAIT_S)


def refusal(holder: Holder) -> Conflict:
    if holder.is_visitors:
        return Conflict(
            _("This chat cannot take messages at the moment."), code="quota_exceeded", hint=_("Try again in a moment.")
        )
    return Conflict(
        _("Your runs and conversations may hold %(number)s MB in total.") % {"number": holder.most >> 20},
        code="quota_exceeded",
        hint=_("Delete some conversations, or empty some runs; large values are better sent as files."),
    )


ROOMS = Rooms()


def check_room(owner_id: Any, *values: Any, is_visitors: bool = False) -> None:
    """Whether a person's runs may hold these values, too; `is_visitors`: those of the visitors of their embeds. Raises
    Conflict (quota_exceeded).
    """
    ROOMS.check(Holder(owner_id, is_visitors), sum(measure(value, WHOLE) for value in values))


def note_made(owner_id: Any, size: int | None) -> None:
    """So many bytes were stored that nobody sent: what a function returned."""
    ROOMS.find(Holder(owner_id)).sent += size or 0


def count_stored(holder: Holder) -> int:
    """The bytes of messages, of the large inputs and the results of runs, and of direct calls of functions."""
    of_messages = holder.find_messages().aggregate(Sum("size"))
    of_runs = holder.find_runs().aggregate(Sum("size"), Sum("stored"))
    of_calls = holder.find_calls().aggregate(Sum("size"))
    totals = [*of_messages.values(), *of_runs.values(), *of_calls.values()]
    return sum(filter(None, totals))


def find_first_live(holder: Holder) -> UUID | None:
    """The oldest run of this person that is still at work, and so grows."""
    live = holder.find_runs().filter(finished_at=None)
    return live.order_by("id").values_list("pk", flat=True).first()


def count_made(holder: Holder, since: UUID) -> int:
    """What the runs from that one on have stored besides what they were started with."""
    newer = holder.find_runs().filter(pk__gte=since)
    return newer.aggregate(total=Sum("stored"))["total"] or 0
