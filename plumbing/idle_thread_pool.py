"""A pool of threads that end when they are not needed.

`ThreadPoolExecutor` keeps every thread that it ever made and gives each of them work in turn. A
thread of a web process holds its stack and a database connection with its caches, a megabyte or
more. Here the thread that worked last works next, so the others rest, and end after a while.
"""

import atexit
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from django.db import connections

# Seconds without work after which a thread ends.
REST_S = 30.0
# Threads that stay, with their connections: the next few pieces of work need not wait for new ones.
KEPT = 4

Found = TypeVar("Found")
libc = ctypes.CDLL(None)


class Piece:
    """Work, and the future of what it returns."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.future: Future[Any] = Future()

    def do(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.work()
        except BaseException as error:
            self.future.set_exception(error)
            self = None  # type: ignore[assignment]  # noqa: PLW0642  (its traceback holds this frame: a circle)
        else:
            self.future.set_result(result)


Inbox = SimpleQueue[Piece | None]


class RestingThreads(Executor):
    """At most `most` threads, made when they are needed. Work for which there is none waits."""

    def __init__(self, most: int, thread_name_prefix: str) -> None:
        self.most, self.prefix = most, thread_name_prefix
        self.lock = threading.Lock()
        # Threads without work; the one that worked last stands last.
        self.resting: list[Inbox] = []
        self.waiting: deque[Piece] = deque()
        # All threads, with those that are ending.
        self.threads: set[threading.Thread] = set()
        self.alive = 0
        self.made = 0
        self.is_shut = False

    def submit(self, work: Callable[..., Found], /, *arguments: Any, **options: Any) -> Future[Found]:
        piece = Piece(partial(work, *arguments, **options))
        with self.lock:
            if self.is_shut:
                raise RuntimeError("these threads take no more work")
            if self.resting:
                self.resting.pop().put(piece)
            elif self.alive < self.most:
                self.add_thread(piece)
            else:
                self.waiting.append(piece)
        return piece.future

    def add_thread(self, piece: Piece) -> None:
        if not self.made:
            atexit.register(self.shutdown)
        inbox: Inbox = SimpleQueue()
        # Not an argument: a thread keeps those until it ends.
        inbox.put(piece)
        thread = threading.Thread(target=self.live, args=[inbox], name=f"{self.prefix}_{self.made}", daemon=True)
        thread.start()
        self.threads.add(thread)
        self.alive += 1
        self.made += 1

    def live(self, inbox: Inbox) -> None:
        """What a thread does. Its first piece of work is in its inbox."""
        piece = inbox.get()
        try:
            while piece is not None:
                piece.do()
                # What it holds must not live as long as this thread rests.
                del piece
                piece = self.next_for(inbox)
        finally:
            connections.close_all()
            self.threads.discard(threading.current_thread())
            if len(self.threads) == KEPT:
                give_memory_back()

    def next_for(self, inbox: Inbox) -> Piece | None:
        """The next piece for the thread of this inbox; None if it ends."""
        with self.lock:
            if self.waiting:
                return self.waiting.popleft()
            if self.is_shut:
                self.alive -= 1
                return None
            self.resting.append(inbox)
        while True:
            try:
                return inbox.get(timeout=REST_S)
            except Empty:
                with self.lock:
                    if inbox in self.resting and self.alive > KEPT:
                        self.resting.remove(inbox)
                        self.alive -= 1
                        return None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What waits is done first, unless it is cancelled."""
        with self.lock:
            self.is_shut = True
            cancelled = [*self.waiting] if cancel_futures else []
            if cancel_futures:
                self.waiting.clear()
            while self.resting:
                self.resting.pop().put(None)
            threads = [*self.threads]
        for piece in cancelled:
            piece.future.cancel()
        if wait:
            for thread in threads:
                thread.join()


def give_memory_back() -> None:
    """What was freed between pieces in use would stay with the process (glibc only)."""
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
