"""How much one person's runs and conversations hold, and whether there is room for more.

Each message, and each run with a large input, stores how large it is. Adding that up takes a while for
somebody with many of them, so a process asks only once a person has sent much since the last time. What a
person sends in between without being asked is a small part of what they may have.
"""

import threading
import time
from dataclasses import dataclass
from typing import Any

from cachetools import TTLCache
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import Sum
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict
from agents.http.sizes import measure

WHOLE = 1 << 62  # for `measure`: count to the end
ASKED_EVERY = 16  # parts of the quota that somebody sends between two questions
ASKED_AGAIN_S = 2.0  # seconds between two questions for somebody who has no room
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
        if usage.sent >= most // ASKED_EVERY:
            self.ask(owner_id, usage, more)
        if usage.stored + usage.sent <= most:
            return
        if time.monotonic() - usage.asked_at >= ASKED_AGAIN_S:  # some may have been deleted
            self.ask(owner_id, usage, more)
        if usage.stored + usage.sent > most:
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
        usage.stored, usage.asked_at, usage.sent = count_stored(owner_id), time.monotonic(), more


ROOMS = Rooms()


def check_room(owner_id: Any, *values: Any) -> None:
    """Whether a person's runs may hold these values, too. Raises Conflict (quota_exceeded)."""
    ROOMS.check(owner_id, sum(measure(value, WHOLE) for value in values))


def count_stored(owner_id: Any) -> int:
    """The bytes of this person's messages, and of the large inputs of their runs."""
    messages = apps.get_model("runs", "Message").objects.filter(session__owner=owner_id)
    runs = apps.get_model("runs", "Run").objects.filter(principal=owner_id)
    return sum(rows.aggregate(total=Sum("size"))["total"] or 0 for rows in (messages, runs))
