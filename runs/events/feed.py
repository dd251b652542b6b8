"""What happens in one run, heard once a server process, however many watch it there.

A feed tells every numbered event in order and without a gap; readers keep their own place in what it told lately. Who
falls further behind than that reads the rows, so a slow reader costs no memory and holds nobody up.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import redis
from channels.layers import get_channel_layer

from plumbing.threads import in_thread
from runs.models import Run

from . import record as events
from .frames import HEARTBEAT, Frame, delta
from .stored import stored

log = logging.getLogger(__name__)
HEARTBEAT_S = 15.0
KEPT = 512  # frames that a reader may be behind
BROKER_AWAY_S = 1.0  # between attempts to subscribe


class FeedBroken(Exception):
    """Nothing more will be told here; come again with the number of the last event you had."""

    def __init__(self) -> None:
        super().__init__("come again with the number of the last event you had")


class Feed:
    """One run's events since somebody began to watch it here."""

    def __init__(self, run: Run, ear: "Ear") -> None:
        self.run_id, self.ear = str(run.pk), ear
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
        """Listen as long as anybody reads. Who joins while this is giving up has it begin anew."""
        try:
            while self.readers:
                is_heard = await self.ear.listen_to(self.run_id)
                try:
                    await self.look_about(HEARTBEAT_S if is_heard else BROKER_AWAY_S)
                    while is_heard and self.readers:
                        await self.look_about(HEARTBEAT_S)
                finally:
                    await self.ear.turn_from(self.run_id)
        finally:
            self.ear.forget(self)

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
    found = events.text_so_far(run_id)
    return found if found and Run.objects.filter(pk=run_id, turns__lt=found["turn"]).exists() else None


class Ear:
    """What the broker tells one event loop: a single channel, on which any number of runs are heard."""

    def __init__(self) -> None:
        self.feeds: dict[str, Feed] = {}
        self.channel = ""
        self.work: asyncio.Task[None] | None = None
        self.turn = asyncio.Lock()

    def feed(self, run: Run) -> Feed:
        if str(run.pk) not in self.feeds:
            self.feeds[str(run.pk)] = Feed(run, self)
        return self.feeds[str(run.pk)]

    def forget(self, feed: Feed) -> None:
        if self.feeds.get(feed.run_id) is feed:
            del self.feeds[feed.run_id]

    async def listen_to(self, run_id: str) -> bool:
        """False while the broker is away. The last message comes back as soon as the subscription stands."""
        layer = get_channel_layer()
        try:
            async with self.turn:
                self.channel = self.channel or await layer.new_channel()
                self.work = self.work or asyncio.create_task(self.hear_for_ever())
            for group in groups_of(run_id):
                await layer.group_add(group, self.channel)
            await layer.group_send(events.group_of(run_id), {"type": "feed.stands", "run": run_id, "to": self.channel})
        except (redis.RedisError, OSError) as error:
            log.info("Run %s is watched by its rows until the broker is back: %s", run_id, error)
            return False
        return True

    async def turn_from(self, run_id: str) -> None:
        layer = get_channel_layer()
        try:
            for group in groups_of(run_id):
                await layer.group_discard(group, self.channel)
        except (redis.RedisError, OSError):
            pass  # a broker that is away has forgotten it

    async def hear_for_ever(self) -> None:
        layer = get_channel_layer()
        while True:
            message = await layer.receive(self.channel)
            try:
                self.hand_over(message)
            except Exception:  # one run's news must not deafen all others; its own feed reads the rows in a while
                log.exception("A message to the feeds was not understood: %s", str(message)[:500])

    def hand_over(self, message: dict[str, Any]) -> None:
        event = message.get("event")
        feed = self.feeds.get(event["run"] if event else message["run"])
        if feed and event:
            feed.hear(Frame.of(event))
        elif feed and message["to"] == self.channel:
            feed.may_have_missed()  # from now on the subscription stands


def groups_of(run_id: str) -> tuple[str, str]:
    return events.group_of(run_id), events.deltas_of(run_id)


EARS: WeakKeyDictionary[asyncio.AbstractEventLoop, Ear] = WeakKeyDictionary()


@asynccontextmanager
async def joined(run: Run) -> AsyncIterator[Feed]:
    """This process's feed of the run; it lives as long as somebody is joined."""
    ear = EARS.setdefault(asyncio.get_running_loop(), Ear())
    feed = ear.feed(run)
    feed.readers += 1
    feed.begin()
    try:
        yield feed
    finally:
        feed.readers -= 1
        if not feed.readers:
            feed.doubt.set()
            if feed.work is None:
                ear.forget(feed)
