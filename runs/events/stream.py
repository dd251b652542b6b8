"""Follows one run: stored events after a cursor, then live ones, without gaps or duplicates."""

from collections.abc import AsyncIterator
from contextlib import suppress

from runs.models import Run

from . import feed
from .frames import Frame, delta
from .stored import iterate_stored_events


async def in_batches(run: Run, *, after: int = 0) -> AsyncIterator[list[Frame]]:
    """Events of a run after `after`, until run.finished, in batches, with heartbeats between them.

    A cursor beyond the last event counts as up to date. A reader that falls far behind catches up
    from the rows. Raises FeedBroken.
    """
    async with feed.join_feed(run) as live:
        last = max(run.last_event, live.last)
        reader = Reader(str(run.pk), min(after, last))
        while True:
            # Subscribed before the rows are read, so that nothing is missed in between.
            place = live.told
            was_over = live.is_over
            async for batch in iterate_stored_events(run.pk, reader.seen):
                yield reader.fresh(batch)
                if batch[-1].is_last:
                    return
            if was_over:
                return
            if live.text:
                late = reader.unseen(delta(reader.run, live.turn, 0, live.text))
                if late:
                    yield [late]
            while (frames := await live.since(place)) is not None:
                place += len(frames)
                batch = reader.fresh(frames)
                if batch:
                    yield batch
                if frames[-1].is_last:
                    return


class Reader:
    """A reader's position: events up to the number `seen`, and the length of the reply's text in
    this turn.
    """

    def __init__(self, run: str, seen: int) -> None:
        self.run = run
        self.seen = seen
        self.turn = 0
        self.length = 0

    def fresh(self, frames: list[Frame]) -> list[Frame]:
        """The frames the reader does not have yet; duplicates are recognised by number."""
        new_frames = []
        for frame in frames:
            if frame.type == "message.delta":
                piece = self.unseen(frame)
                if piece:
                    new_frames.append(piece)
            elif frame.seq is None:
                new_frames.append(frame)
            elif frame.seq > self.seen:
                self.seen = frame.seq
                new_frames.append(frame)
        return new_frames

    def unseen(self, frame: Frame) -> Frame | None:
        """The part of this delta the reader does not have: a late joiner received the text so far
        first.
        """
        piece = frame.data
        offset = piece["offset"]
        text = piece["text"]
        if piece["turn"] != self.turn:
            self.turn = piece["turn"]
            self.length = 0
        had = max(0, self.length - offset)
        if had >= len(text):
            return None
        self.length = offset + len(text)
        if had == 0:
            return frame
        return delta(self.run, self.turn, offset + had, text[had:])


async def as_sse(source: AsyncIterator[list[Frame]]) -> AsyncIterator[bytes]:
    """Server-sent events in batches, each written at once. After an early end the reader
    reconnects.
    """
    yield b"retry: 1000\n\n"
    with suppress(feed.FeedBroken):
        async for batch in source:
            yield b"".join([frame.as_sse for frame in batch])
