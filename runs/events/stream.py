"""Follow one run: what is stored after a cursor, then what happens, without gap or double."""

from collections.abc import AsyncIterator
from contextlib import suppress

from runs.models import Run

from . import feed
from .frames import Frame, delta
from .stored import stored


async def in_batches(run: Run, *, after: int = 0) -> AsyncIterator[list[Frame]]:
    """Events of a run from `after` on, until run.finished, by as many as are at hand; heartbeats among them.

    A cursor from the future counts as one that has everything. A reader that falls far behind is caught up from rows.
    Raises FeedBroken.
    """
    async with feed.joined(run) as live:
        reader = Reader(str(run.pk), min(after, max(run.last_event, live.last)))
        while True:
            place, was_over = live.told, live.is_over  # before the rows are read, so that nothing falls between
            async for batch in stored(run.pk, reader.seen):
                yield reader.fresh(batch)
                if batch[-1].is_last:
                    return
            if was_over:
                return
            if live.text and (late := reader.unseen(delta(reader.run, live.turn, 0, live.text))):
                yield [late]
            while (frames := await live.since(place)) is not None:
                place += len(frames)
                if batch := reader.fresh(frames):
                    yield batch
                if frames[-1].is_last:
                    return


class Reader:
    """What one reader has had: events up to the number `seen`, and so much text of the reply of this turn."""

    def __init__(self, run: str, seen: int) -> None:
        self.run, self.seen = run, seen
        self.turn = self.length = 0

    def fresh(self, frames: list[Frame]) -> list[Frame]:
        """Those that it has not had; what comes twice is known by its number."""
        found = []
        for frame in frames:
            if frame.type == "message.delta":
                if piece := self.unseen(frame):
                    found.append(piece)
            elif frame.seq is None:
                found.append(frame)
            elif frame.seq > self.seen:
                self.seen = frame.seq
                found.append(frame)
        return found

    def unseen(self, frame: Frame) -> Frame | None:
        """What of this delta it has not had: a late joiner got the text so far first."""
        piece = frame.data
        if piece["turn"] != self.turn:
            self.turn, self.length = piece["turn"], 0
        had = max(0, self.length - piece["offset"])
        if had >= len(piece["text"]):
            return None
        self.length = piece["offset"] + len(piece["text"])
        return frame if not had else delta(self.run, self.turn, piece["offset"] + had, piece["text"][had:])


async def as_sse(source: AsyncIterator[list[Frame]]) -> AsyncIterator[bytes]:
    """Server-sent events of batches, each batch written at once. A reader comes back after an end before the end."""
    yield b"retry: 1000\n\n"
    with suppress(feed.FeedBroken):
        async for batch in source:
            yield b"".join([frame.as_sse for frame in batch])
