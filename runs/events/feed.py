"""A run's events in one server process, read once however many clients watch.

A feed delivers every numbered event in order and without gaps; each reader keeps its own position
in the recent ones. A reader that falls further behind reads from the rows, so a slow reader costs
no memory and delays nobody.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from plumbing import json_values
from plumbing.broker.listener import LISTENER
from plumbing.threads import in_thread
from runs.models import Run

from . import record
from .frames import HEARTBEAT, Frame, delta
from .stored import iterate_stored_events

HEARTBEAT_S = 15.0
# Frames that a reader may be behind.
KEPT = 512
# Seconds between checks of the rows while nothing arrives.
BROKER_AWAY_S = 1.0


class FeedBroken(Exception):
    """This feed has ended; reconnect with the number of the last event you received."""

    def __init__(self) -> None:
        super().__init__("reconnect with the number of the last event you received")


class Feed:
    """One run's events since the first reader joined in this process."""

    def __init__(self, run: Run, feeds: dict[str, "Feed"]) -> None:
        self.run_id = str(run.pk)
        self.feeds = feeds
        self.readers = 0
        # The number of the newest delivered event; at first, of those stored before.
        self.last = run.last_event
        self.is_over = run.finished_at is not None
        # The reply that is being written, and its turn.
        self.text = ""
        self.turn = 0
        # The last turn whose answer was delivered as a whole.
        self.finished = 0
        # Frames so far.
        self.told = 0
        # Nothing more will come: the run was deleted, or the database went back to before.
        self.is_lost = False
        self.recent: deque[Frame] = deque(maxlen=KEPT)
        self.news = asyncio.Event()
        # Events may be stored that were not received.
        self.doubt = asyncio.Event()
        # Deltas are held until the rows are read: events before them may be stored.
        self.is_behind = True
        self.held: list[Frame] = []
        self.wants_text = False
        self.work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Everything stored since the row was read will be delivered, even if the subscription is
        not yet active.
        """
        if self.work is None and not self.is_over:
            self.work = asyncio.create_task(self.keep_up())
            self.work.add_done_callback(lambda work: self.wake())

    async def since(self, place: int) -> list[Frame] | None:
        """The frames after that many, waited for; None if they are too old. Raises FeedBroken."""
        while place == self.told:
            if self.work is None or self.work.done():
                raise FeedBroken
            await self.news.wait()
        missed = self.told - place
        kept = len(self.recent)
        if missed > kept:
            return None
        return list(islice(self.recent, kept - missed, None))

    def tell(self, frame: Frame) -> None:
        if self.is_over:
            return
        self.is_over = frame.is_last
        self.recent.append(frame)
        self.told += 1
        self.wake()

    def wake(self) -> None:
        self.news.set()
        # Whoever waits next waits for the next news.
        self.news = asyncio.Event()

    def hear(self, frame: Frame) -> None:
        """A message from the broker. An event out of order is read from the rows, together with
        those before it.
        """
        if frame.type == "reasoning.delta":
            # Who comes late has missed it; it is in the run's page.
            if frame.data["turn"] > self.finished:
                self.tell(frame)
        elif frame.seq is None:
            self.hear_piece(frame)
        elif frame.seq == self.last + 1:
            self.tell_event(frame)
        elif frame.seq > self.last:
            self.is_behind = True
            self.doubt.set()

    def hear_piece(self, frame: Frame) -> None:
        if self.is_behind:
            self.held.append(frame)
            self.doubt.set()
        else:
            self.tell_piece(frame)

    def may_have_missed(self) -> None:
        """Events or deltas may be missing: read both from the rows before more is sent."""
        self.is_behind = True
        self.wants_text = True
        self.doubt.set()

    def tell_event(self, frame: Frame) -> None:
        self.last = frame.seq or self.last
        if frame.type == "model.finished":
            turn = frame.data.get("turn", 0)
            self.tell_held(turn)
            # The event contains the whole answer.
            self.text = ""
            self.finished = turn
        elif frame.is_last:
            self.tell_held()
        self.tell(frame)

    def tell_held(self, turn: float = math.inf) -> None:
        """The held deltas up to those of a turn, without what the stored text already contains."""
        held = [frame for frame in self.held if frame.data["turn"] <= turn]
        self.held = [frame for frame in self.held if frame.data["turn"] > turn]
        for frame in held:
            if not self.has_told(frame.data):
                self.tell_piece(frame)

    def has_told(self, piece: dict[str, Any]) -> bool:
        return piece["turn"] == self.turn and piece["offset"] + len(piece["text"]) <= len(self.text)

    def tell_piece(self, frame: Frame) -> None:
        """A delta; the text so far is stored for readers who join later."""
        piece = frame.data
        turn = piece["turn"]
        if turn <= self.finished:
            return
        if turn != self.turn:
            self.text = ""
            self.turn = turn
        # Something was written before this feed was subscribed.
        if piece["offset"] > len(self.text):
            self.may_have_missed()
            return
        self.text = self.text[: piece["offset"]] + piece["text"]
        self.tell(frame)

    async def keep_up(self) -> None:
        """Listen as long as there is a reader."""
        loop = asyncio.get_running_loop()
        channels = (record.name_event_channel(self.run_id), record.name_delta_channel(self.run_id))
        for channel in channels:
            LISTENER.subscribe(channel, self.receive, loop=loop)
        try:
            while self.readers and not self.is_lost:
                is_heard = all(map(LISTENER.is_standing, channels))
                await self.look_about(HEARTBEAT_S if is_heard else BROKER_AWAY_S)
        finally:
            for channel in channels:
                LISTENER.unsubscribe(channel, self.receive)
            self.forget()

    def receive(self, message: bytes | None) -> None:
        """None: the subscription is active, and earlier messages may have been missed."""
        if message is None:
            self.may_have_missed()
        else:
            self.hear(Frame.of(json_values.load_json(message)))

    def forget(self) -> None:
        if self.feeds.get(self.run_id) is self:
            del self.feeds[self.run_id]

    async def look_about(self, wait_s: float) -> None:
        """If events may be missing, send them from the rows; otherwise send a heartbeat.

        A broker that was unavailable loses messages; rows are not lost.
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
        # The text is read before the rows: then they have all events that came before its words.
        reply = await self.read_text() if self.wants_text else None
        async for batch in iterate_stored_events(self.run_id, self.last):
            for frame in batch:
                if frame.seq and frame.seq > self.last:
                    self.tell_event(frame)
        if reply:
            self.tell_text(reply["turn"], reply["text"])
        self.is_behind = self.doubt.is_set()
        if not self.is_behind:
            self.tell_held()
        if self.told == before and not was_in_doubt:
            self.tell(HEARTBEAT)
            self.is_lost = not await in_thread(is_live, self.run_id)

    async def read_text(self) -> dict[str, Any] | None:
        """{"turn", "text"} of the part of the reply written before this feed was subscribed."""
        self.wants_text = False
        return await in_thread(unfinished_text, self.run_id)

    def tell_text(self, turn: int, text: str) -> None:
        if turn != self.turn or len(text) > len(self.text):
            self.tell_piece(delta(self.run_id, turn, 0, text))


def is_live(run_id: str) -> bool:
    return Run.objects.filter(pk=run_id, finished_at=None).exists()


def unfinished_text(run_id: str) -> dict[str, Any] | None:
    """{"turn", "text"} of the reply being written; a finished reply is in its event."""
    reply = record.text_so_far(run_id)
    if not reply:
        return None
    is_unfinished = Run.objects.filter(pk=run_id, turns__lt=reply["turn"]).exists()
    return reply if is_unfinished else None


FEEDS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Feed]] = WeakKeyDictionary()


@asynccontextmanager
async def join_feed(run: Run) -> AsyncIterator[Feed]:
    """This process's feed of the run; it lives as long as it has readers."""
    feeds = FEEDS.setdefault(asyncio.get_running_loop(), {})
    feed = feeds.get(str(run.pk))
    if feed is None:
        feed = Feed(run, feeds)
        feeds[str(run.pk)] = feed
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
