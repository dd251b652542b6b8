"""What happens in one run, heard once a server process, however many watch it there.

A feed tells every numbered event in order and without a gap; readers keep their own place in what it told lately. Who
falls further behind than that reads the rows, so a slow reader costs no memory and holds nobody up.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from plumbing.listener import LISTENER
from plumbing.threads import in_thread
from runs.models import Run

from . import record
from .frames import HEARTBEAT, Frame, delta
from .stored import stored

HEARTBEAT_S = 15.0
KEPT = 512  # frames that a reader may be behind
BROKER_AWAY_S = 1.0  # between looks into the rows while nothing is heard


class FeedBroken(Exception):
    """Nothing more will be told here; come again with the number of the last event you had."""

    def __init__(self) -> None:
        super().__init__("come again with the number of the last event you had")


class Feed:
    """One run's events since somebody began to watch it here."""

    def __init__(self, run: Run, feeds: dict[str, "Feed"]) -> None:
        self.run_id, self.feeds = str(run.pk), feeds
        self.readers = 0
        self.last = run.last_event  # number of the newest event told; at first, of those that were stored before
        self.is_over = run.finished_at is not None
        self.text, self.turn = "", 0  # of the reply being written
        self.finished = 0  # the last turn whose answer is told as a whole
        self.told = 0  # frames so far
        self.recent: deque[Frame] = deque(maxlen=KEPT)
        self.news = asyncio.Event()
        self.doubt = asyncio.Event()  # something may be stored that was not heard
        self.is_behind = True  # until the rows are read, deltas are held: what comes before them may be stored
        self.held: list[Frame] = []
        self.wants_text = False
        self.work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Whatever was stored since the row was read will be told, whether or not the subscription stands in time."""
        if self.work is None and not self.is_over:
            self.work = asyncio.create_task(self.keep_up())
            self.work.add_done_callback(lambda work: self.wake())

    async def since(self, place: int) -> list[Frame] | None:
        """What was told after that many frames, waited for; None where that was too long ago. Raises FeedBroken."""
        while place == self.told:
            if self.work is None or self.work.done():
                raise FeedBroken
            await self.news.wait()
        missed = self.told - place
        return list(islice(self.recent, len(self.recent) - missed, None)) if missed <= len(self.recent) else None

    def tell(self, frame: Frame) -> None:
        if self.is_over:
            return
        self.is_over = frame.is_last
        self.recent.append(frame)
        self.told += 1
        self.wake()

    def wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def hear(self, frame: Frame) -> None:
        """What the broker told. An event that is not the next one is read from the rows, with those before it."""
        if frame.seq is None and self.is_behind:
            self.held.append(frame)
            self.doubt.set()
        elif frame.seq is None:
            self.tell_piece(frame)
        elif frame.seq == self.last + 1:
            self.tell_event(frame)
        elif frame.seq > self.last:
            self.is_behind = True
            self.doubt.set()

    def may_have_missed(self) -> None:
        """Events, or text of the reply: what is kept of both is to be read."""
        self.wants_text = True
        self.doubt.set()

    def tell_event(self, frame: Frame) -> None:
        self.last = frame.seq or self.last
        if frame.type == "model.finished":
            turn = frame.data.get("turn", 0)
            self.tell_held(turn)
            self.text, self.finished = "", turn
        elif frame.is_last:
            self.tell_held()
        self.tell(frame)

    def tell_held(self, turn: float = math.inf) -> None:
        """The deltas, up to those of a turn, that waited for the rows; but for what the text so far has of them."""
        held = [frame for frame in self.held if frame.data["turn"] <= turn]
        self.held = [frame for frame in self.held if frame.data["turn"] > turn]
        for frame in held:
            if not self.has_told(frame.data):
                self.tell_piece(frame)

    def has_told(self, piece: dict[str, Any]) -> bool:
        return piece["turn"] == self.turn and piece["offset"] + len(piece["text"]) <= len(self.text)

    def tell_piece(self, frame: Frame) -> None:
        """A delta; the text so far is kept for those who join later."""
        piece = frame.data
        if piece["turn"] <= self.finished:
            return
        if piece["turn"] != self.turn:
            self.text, self.turn = "", piece["turn"]
        if piece["offset"] > len(self.text):  # something was written before this feed listened
            self.may_have_missed()
            return
        self.text = self.text[: piece["offset"]] + piece["text"]
        self.tell(frame)

    async def keep_up(self) -> None:
        """Listen as long as anybody reads."""
        loop = asyncio.get_running_loop()
        channels = (record.events_of(self.run_id), record.deltas_of(self.run_id))
        for channel in channels:
            LISTENER.subscribe(channel, self.receive, loop=loop)
        try:
            while self.readers:
                is_heard = all(map(LISTENER.is_standing, channels))
                await self.look_about(HEARTBEAT_S if is_heard else BROKER_AWAY_S)
        finally:
            for channel in channels:
                LISTENER.unsubscribe(channel, self.receive)
            self.forget()

    def receive(self, message: bytes | None) -> None:
        """None: the subscription stands, and what was published before may have been missed."""
        if message is None:
            self.may_have_missed()
        else:
            self.hear(Frame.of(orjson.loads(message)))

    def forget(self) -> None:
        if self.feeds.get(self.run_id) is self:
            del self.feeds[self.run_id]

    async def look_about(self, wait_s: float) -> None:
        """In doubt, or after a while, tell what is stored and was not heard; else that the line still stands.

        A broker that was away loses messages, rows do not.
        """
        before = self.told
        try:
            async with asyncio.timeout(wait_s):
                await self.doubt.wait()
        except TimeoutError:
            pass
        if not self.readers:
            return
        was_in_doubt = self.doubt.is_set()
        self.doubt.clear()
        async for batch in stored(self.run_id, self.last):
            for frame in batch:
                if frame.seq and frame.seq > self.last:
                    self.tell_event(frame)
        if self.wants_text:
            await self.ask_for_text()
        self.is_behind = self.doubt.is_set()
        if not self.is_behind:
            self.tell_held()
        if self.told == before and not was_in_doubt:
            self.tell(HEARTBEAT)

    async def ask_for_text(self) -> None:
        """What was written of the reply before this feed listened."""
        self.wants_text = False
        found = await in_thread(unfinished_text, self.run_id)
        if found and (found["turn"] != self.turn or len(found["text"]) > len(self.text)):
            self.tell_piece(delta(self.run_id, found["turn"], 0, found["text"]))


def unfinished_text(run_id: str) -> dict[str, Any] | None:
    """{"turn", "text"} of a reply that is being written; once it is finished its event has it whole."""
    found = record.text_so_far(run_id)
    return found if found and Run.objects.filter(pk=run_id, turns__lt=found["turn"]).exists() else None


FEEDS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Feed]] = WeakKeyDictionary()


@asynccontextmanager
async def joined(run: Run) -> AsyncIterator[Feed]:
    """This process's feed of the run; it lives as long as somebody is joined."""
    feeds = FEEDS.setdefault(asyncio.get_running_loop(), {})
    feed = feeds.get(str(run.pk)) or feeds.setdefault(str(run.pk), Feed(run, feeds))
    feed.readers += 1
    feed.begin()
    try:
        yield feed
    finally:
        feed.readers -= 1
        if not feed.readers:
            feed.doubt.set()
            if feed.work is None:
                feed.forget()
