"""How much one person's runs and conversations hold, and whether there is room for more.

Each message, and each run with a large input, stores how large it is; each run adds up what its events, calls and
results take. Summing that takes a while for somebody with many of them, so a process asks only once a person has sent
or made much since the last time. What their newer runs made is looked at every few seconds: those are few. What
a person stores in between is a small part of what they may have.
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
from django.db.models import Sum
from django.utils.translation import gettext_noop as _
from uuid_utils.compat import uuid7

from agents.exceptions import Conflict
from agents.http.sizes import measure

WHOLE = 1 << 62  # for `measure`: count to the end
ASKED_EVERY = 16  # parts of the quota that somebody sends between two questions
ASKED_AGAIN_S = 2.0  # seconds between two questions for somebody who has no room
LOOKED_EVERY_S = 5.0  # seconds between two looks at what newer runs made…
LOOKS_COST = 200  # …and so many times the seconds that a look takes
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


@dataclass(slots=True)
class Usage:
    """What a process knows of a person: what was stored when it asked, and what they sent since."""

    stored: int = 0
    asked_at: float = -ASKED_AGAIN_S
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
    """What this process knows of each person."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.people: TTLCache[int, Usage] = TTLCache(MOST_PEOPLE, REMEMBERED_S)

    def check(self, owner_id: int, more: int) -> None:
        """Raises Conflict if this person's runs hold as much as they may."""
        most = settings.RUN_BYTES_PER_PERSON
        if not most:
            return
        usage = self.find(owner_id)
        usage.sent += more
        if time.monotonic() >= usage.look_at:
            self.look(owner_id, usage)
        if usage.more >= most // ASKED_EVERY:
            self.ask(owner_id, usage, more)
        if usage.total <= most:
            return
        if time.monotonic() - usage.asked_at >= ASKED_AGAIN_S:  # some may have been deleted
            self.ask(owner_id, usage, more)
        if usage.total > most:
            usage.sent -= more
            raise Conflict(
                _("Your runs and conversations may hold %(number)s MB in total.") % {"number": most >> 20},
                code="quota_exceeded",
                hint=_("Delete some conversations, or send large values as files."),
            )

    def find(self, owner_id: int) -> Usage:
        with self.lock:
            return self.people.setdefault(owner_id, Usage())

    def ask(self, owner_id: int, usage: Usage, more: int) -> None:
        usage.since = find_first_live(owner_id) or uuid7()
        usage.before, usage.made = count_made(owner_id, usage.since), 0
        usage.stored, usage.asked_at, usage.sent = count_stored(owner_id), time.monotonic(), more

    def look(self, owner_id: int, usage: Usage) -> None:
        begun = time.monotonic()
        usage.made = max(0, count_made(owner_id, usage.since) - usage.before)
        now = time.monotonic()
        usage.look_at = now + max(LOOKED_EVERY_S, LOOKS_COST * (now - begun))


ROOMS = Rooms()


def check_room(owner_id: Any, *values: Any) -> None:
    """Whether a person's runs may hold these values, too. Raises Conflict (quota_exceeded)."""
    ROOMS.check(owner_id, sum(measure(value, WHOLE) for value in values))


def count_stored(owner_id: Any) -> int:
    """The bytes of this person's messages, and of the large inputs and the results of their runs."""
    messages = apps.get_model("runs", "Message").objects.filter(session__owner=owner_id)
    runs = apps.get_model("runs", "Run").objects.filter(principal=owner_id)
    totals = [*messages.aggregate(Sum("size")).values(), *runs.aggregate(Sum("size"), Sum("stored")).values()]
    return sum(filter(None, totals))


def find_first_live(owner_id: Any) -> UUID | None:
    """The oldest run of this person that is still at work, and so grows."""
    runs = apps.get_model("runs", "Run").objects.filter(principal=owner_id, finished_at=None)
    return runs.order_by("id").values_list("pk", flat=True).first()


def count_made(owner_id: Any, since: UUID) -> int:
    """What this person's runs from that one on have stored besides what they were started with."""
    runs = apps.get_model("runs", "Run").objects.filter(principal=owner_id, pk__gte=since)
    return runs.aggregate(total=Sum("stored"))["total"] or 0
