"""One person's many requests at once: they take turns, so that others hardly wait.

A request may hold its thread for long: a function that is executed, a search that asks a model server, an import from
a slow address. So a person has a part of the threads, and their further requests wait on the event loop, where they
cost nothing. Who they are is known once a request with the same credential was answered; until then, and without a
credential, all requests from one address share one part.

An answer of megabytes keeps the interpreter busy, and sixty of them at once keep everybody waiting
for seconds. Whoever has just got a large answer is, for a while, worked for on two threads at most;
further requests of that person wait on the event loop, where they cost nothing, as long as answers of
many megabytes were made and not read yet. Nobody else is concerned: without large answers this is a look
into an empty dict.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from threading import Lock
from typing import Any

from cachetools import LRUCache
from django.conf import settings
from django.http import JsonResponse
from django.utils.functional import empty

from plumbing.http.addresses import group_client_address

LARGE_BYTES = 500_000
FOR_S = 10.0  # how long after a large answer its person has only a share
AT_ONCE = 2
MOST_WAITING = 100  # requests of one person; further ones are answered 429
MOST_KNOWN = 1000
UNREAD_BYTES = 16_000_000  # of one person's large answers that are being sent; then no further one is made
PEOPLE = 10_000  # whose credentials are remembered
Credential = bytes


class TooManyWaiting(Exception):
    """This person's requests already wait in a long line."""


class Threads:
    """Whose requests are on threads, and the turns of each."""

    def __init__(self, each: int) -> None:
        self.each = each
        self.people: LRUCache[Credential, Any] = LRUCache(PEOPLE)
        self.lock = Lock()
        self.turns: dict[Any, asyncio.Semaphore] = {}
        self.present: Counter[Any] = Counter()

    @asynccontextmanager
    async def turn(self, scope: Any) -> AsyncIterator[None]:
        who = self.who(scope)
        self.present[who] += 1
        turns = self.turns.get(who)
        if turns is None:
            turns = self.turns[who] = asyncio.Semaphore(self.each)
        try:
            async with turns:
                yield
        finally:
            self.present[who] -= 1
            if not self.present[who]:
                del self.present[who], self.turns[who]

    def who(self, scope: Any) -> Any:
        credential = find_credential(scope)
        with self.lock:
            person = self.people.get(credential)
        if person is not None:
            return person
        address, _ = scope.get("client") or ("", 0)
        return group_client_address(address)

    def remember(self, scope: Any, request: Any) -> None:
        """Called on the thread that made the answer."""
        credential = find_credential(scope)
        if not credential or not is_user_loaded(request):
            return
        person = request.user.pk
        if person is not None:
            with self.lock:
                self.people[credential] = person


def is_user_loaded(request: Any) -> bool:
    """Whether the answer needed to know who asks. If not, finding out would cost statements, which may fail."""
    user = getattr(request, "user", None)
    return user is not None and getattr(user, "_wrapped", user) is not empty


class LargeAnswers:
    """Who has got large answers lately, and the turns of these people."""

    def __init__(self) -> None:
        self.people: dict[Credential, tuple[Any, float]] = {}
        self.turns: dict[Any, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self.present: Counter[Any] = Counter()
        self.sent: dict[Any, asyncio.Event] = defaultdict(asyncio.Event)  # something was, to those who wait
        self.unread: Counter[Any] = Counter()  # bytes of each person's large answers that are being sent

    @asynccontextmanager
    async def turn(self, scope: Any) -> AsyncIterator[None]:
        """Raises TooManyWaiting."""
        person = self.person_with_share(scope)
        if person is None:
            yield
            return
        if self.present[person] >= MOST_WAITING:
            raise TooManyWaiting
        self.present[person] += 1
        try:
            async with self.turns[person]:
                while self.unread[person] >= UNREAD_BYTES:  # until they are read, or their connection is lost
                    self.sent[person].clear()
                    await self.sent[person].wait()
                yield
        finally:
            self.present[person] -= 1
            if not self.present[person]:
                del self.present[person]
                self.turns.pop(person, None)
                self.sent.pop(person, None)

    @contextmanager
    def sending(self, scope: Any, size: int) -> Iterator[None]:
        """While an answer is being sent: a slow reader keeps it in memory."""
        person = self.person_with_share(scope) if size >= LARGE_BYTES else None
        if person is None:
            yield
            return
        self.unread[person] += size
        try:
            yield
        finally:
            self.unread[person] -= size
            if person in self.sent:
                self.sent[person].set()
            if not self.unread[person]:
                del self.unread[person]

    def person_with_share(self, scope: Any) -> Any:
        if not self.people:
            return None
        person, until = self.people.get(find_credential(scope), (None, 0.0))
        return person if until > time.monotonic() else None

    def note(self, scope: Any, request: Any, size: int) -> None:
        """Called on the thread that made the answer."""
        if size < LARGE_BYTES:
            return
        person = getattr(getattr(request, "user", None), "pk", None)
        credential = find_credential(scope)
        if person is None or not credential:
            return
        now = time.monotonic()
        if len(self.people) >= MOST_KNOWN:
            self._forget_past(now)
        self.people[credential] = (person, now + FOR_S)

    def _forget_past(self, now: float) -> None:
        people = {}
        for credential, (person, until) in list(self.people.items()):  # other threads add to it
            if until > now:
                people[credential] = (person, until)
        self.people = people


def find_credential(scope: Any) -> Credential:
    """What stands for the person in a request: a key, a token or a session, as a hash; empty if there is none.

    Only one of them, and of the cookies only the session: whoever adds other headers stays the same person.
    """
    headers = dict(scope["headers"])
    credential = headers.get(b"authorization") or headers.get(b"x-api-key")
    credential = credential or find_session(headers.get(b"cookie", b""))
    return sha256(credential).digest() if credential else b""


def find_session(cookies: bytes) -> bytes:
    """The value of the session's cookie; empty without one."""
    for cookie in cookies.split(b";"):
        name, _, value = cookie.strip().partition(b"=")
        if name == settings.SESSION_COOKIE_NAME.encode():
            return value
    return b""


def too_many() -> JsonResponse:
    error = {
        "code": "too_many_large_answers",
        "message": "Too many of your requests wait while large answers are made for you.",
        "hint": "Ask for fewer rows or fields (`limit`, `fields`), and for one page after the other.",
        "details": [],
    }
    return JsonResponse({"error": error}, status=429, headers={"Retry-After": "5"})
