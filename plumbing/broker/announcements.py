"""Lets threads and coroutines wait for one announcement each: the end of a run, the answer of a
device.

One channel carries all announcements, one per line: the key, then JSON. A line without JSON means:
read the row.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from plumbing import json_values
from plumbing.broker.broadcast import name_channel
from plumbing.broker.listener import LISTENER

# Bytes; longer announcements are read from the row.
MAX_INLINE = 64 * 1024
STARTS_WITHIN_S = 1.0


class Waiter:
    """One waiting thread. `news` is the announced value, or None: read the row."""

    def __init__(self) -> None:
        self.lines: SimpleQueue[bytes] = SimpleQueue()
        self.news: dict[str, Any] | None = None

    def tell(self, body: bytes = b"") -> None:
        """From any thread. Without a body: stop waiting and read the row."""
        self.lines.put(body)

    def wait(self, seconds: float) -> bool:
        """Whether it was announced within this time."""
        try:
            body = self.lines.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        self.news = json_values.load_json(body) if body else None
        return True


class LoopWaiter:
    """The same for a coroutine, which holds no thread while it waits."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        # A future takes a fifth of the memory of an Event.
        self.announcement = self.loop.create_future()
        self.is_told = False
        self.news: dict[str, Any] | None = None

    def tell(self, body: bytes = b"") -> None:
        with suppress(RuntimeError):  # the event loop was closed
            self.loop.call_soon_threadsafe(self.hear, body)

    def hear(self, body: bytes) -> None:
        self.news = json_values.load_json(body) if body else self.news
        self.is_told = True
        if not self.announcement.done():
            self.announcement.set_result(None)

    async def wait(self, seconds: float) -> bool:
        if not self.is_told:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, seconds)):
                    await self.announcement
            # A time-out has cancelled the other.
            self.announcement = self.loop.create_future()
        was_told, self.is_told = self.is_told, False
        return was_told


AnyWaiter = TypeVar("AnyWaiter", Waiter, LoopWaiter)


class Announcements:
    """Announcements on one channel; the latest `remembered` are kept for a waiter that comes
    slightly too late.
    """

    def __init__(self, name: str, *, remembered: int = 0) -> None:
        self.channel = name_channel(name)
        self.remembered = remembered
        self.lock = threading.Lock()
        self.recent: OrderedDict[str, bytes] = OrderedDict()
        self.waiters: dict[str, list[Waiter | LoopWaiter]] = {}

    def listen(self) -> bool:
        """Called before the work is handed over, so that its announcement is not missed. False
        while the broker is unavailable.
        """
        if self.is_heard():
            return True
        LISTENER.subscribe(self.channel, self.hear)
        return LISTENER.wait_until_standing(self.channel, STARTS_WITHIN_S)

    def is_heard(self) -> bool:
        return LISTENER.is_standing(self.channel)

    @contextmanager
    def waiter(self, key: Any, kind: Callable[[], AnyWaiter]) -> Iterator[AnyWaiter]:
        """Inside this block no announcement about this key is missed. `kind` is Waiter or
        LoopWaiter.
        """
        key, mine = str(key), kind()
        with self.lock:
            self.waiters.setdefault(key, []).append(mine)
            if (body := self.recent.get(key)) is not None:
                mine.tell(body)
        try:
            yield mine
        finally:
            with self.lock:
                self.waiters[key].remove(mine)
                if not self.waiters[key]:
                    del self.waiters[key]

    def hear(self, data: bytes | None) -> None:
        """Announcements without a waiter here are not parsed."""
        for line in (data or b"").splitlines():
            key, _, body = line.partition(b" ")
            if self.remembered or key.decode() in self.waiters:
                self.deliver(key.decode(), body)

    def deliver(self, key: str, body: bytes) -> None:
        with self.lock:
            if self.remembered:
                self.recent[key] = body
                while len(self.recent) > self.remembered:
                    self.recent.popitem(last=False)
            for waiter in self.waiters.get(key, ()):
                waiter.tell(body)


def format_line(key: Any, news: dict[str, Any] | bytes | None) -> bytes:
    """`news` may be JSON already. What is too long is left out: the waiter then reads the rows."""
    # JSON has no raw line breaks, so that each announcement is one line.
    body = json_values.dump_json(news) if isinstance(news, dict) else news
    if body is None or len(body) > MAX_INLINE:
        body = b""
    return b"%s %s" % (str(key).encode(), body)
