"""Limits on waiting requests and on a user's open streams. Counted in each server process."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.conf import settings
from django.http import StreamingHttpResponse

from agents.exceptions import RateLimited, Unavailable


class Place:
    """The place of one waiting request. A dismissed request answers with what is known now, to make
    room.
    """

    def __init__(self, leave: Callable[["Place"], None] = lambda place: None) -> None:
        self.leave = leave
        self.is_dismissed = False
        self.is_kept = False
        self.wake: Callable[[], None] = lambda: None

    def keep(self) -> Callable[[], None]:
        """Hold the place beyond the block that took it, until the returned function is called."""
        self.is_kept = True
        return lambda: self.leave(self)

    def dismiss(self) -> None:
        self.is_dismissed = True
        self.wake()


class Places:
    """A limited number of places. When all are taken, the user with most of them gives one up."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.Lock()
        self.taken: dict[int, list[Place]] = {}

    @contextmanager
    def take(self, person: int) -> Iterator[Place]:
        """Raises Unavailable if no other user has more places than this one."""
        place = self.enter(person)
        try:
            yield place
        finally:
            if not place.is_kept:
                place.leave(place)

    def enter(self, person: int) -> Place:
        with self.lock:
            count = sum(map(len, self.taken.values()))
            if count >= self.number and not self.make_room(person):
                hint = "Send `Prefer: respond-async` and poll."
                raise Unavailable("Too many requests wait here.", hint=hint, headers={"Retry-After": "1"})
            place = Place(partial(self.leave, person))
            self.taken.setdefault(person, []).append(place)
            return place

    def make_room(self, person: int) -> bool:
        """Dismiss the oldest request of a user who has more places than this user would have."""
        most = max(self.taken, key=lambda one: len(self.taken[one]), default=person)
        their_count = len(self.taken.get(most, ()))
        own_count = len(self.taken.get(person, ()))
        if their_count <= own_count + 1:
            return False
        oldest = self.taken[most].pop(0)
        oldest.dismiss()
        return True

    def leave(self, person: int, place: Place) -> None:
        with self.lock:
            places = self.taken.get(person, [])
            if place in places:
                places.remove(place)
            if not places:
                self.taken.pop(person, None)


class Streams:
    """Open event streams and sockets of each user."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: Counter[int] = Counter()

    def enter(self, person: int, most: int) -> None:
        """Raises RateLimited."""
        with self.lock:
            if self.open[person] >= most:
                raise RateLimited(
                    f"You already have {most} open streams and sockets.",
                    code="too_many_streams",
                    hint="Close one. A session's socket carries the events of all its runs.",
                    headers={"Retry-After": "5"},
                )
            self.open[person] += 1

    def leave(self, person: int) -> None:
        with self.lock:
            self.open[person] -= 1
            if self.open[person] <= 0:
                del self.open[person]


WAITS = Places(settings.MAX_WAITS)
STREAMS = Streams()


@contextmanager
def count_user_stream(
    user: Any, most: int | None = None
) -> Iterator[Callable[[StreamingHttpResponse], StreamingHttpResponse]]:
    """A user's stream counts from here until its response is closed. Raises RateLimited."""
    STREAMS.enter(user.pk, most or settings.MAX_STREAMS)
    closers: list[Callable[[], None]] = [lambda: STREAMS.leave(user.pk)]

    def respond(response: StreamingHttpResponse) -> StreamingHttpResponse:
        response._resource_closers.append(closers.pop())  # type: ignore[attr-defined]
        return response

    try:
        yield respond
    finally:
        # Left over if no response was created.
        for close in closers:
            close()
