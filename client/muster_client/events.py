"""Events of a run, and a reader's position among them. No input or output happens here."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One event of a run.

    `type` is a word such as `message.delta`, `approval.requested` or `run.finished`, and `data`
    depends on it. `seq` numbers the stored events of a run; deltas of the reply have no number.
    """

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    seq: int | None = None
    at: str | None = None

    @property
    def text(self) -> str:
        """The piece of the reply that a `message.delta` brings; empty for other events."""
        return str(self.data.get("text", "")) if self.type == "message.delta" else ""

    @property
    def is_last(self) -> bool:
        return self.type == "run.finished"

    @classmethod
    def of(cls, row: dict[str, Any]) -> Event:
        return cls(str(row.get("type", "")), row.get("data") or {}, row.get("seq"), row.get("at"))


class Position:
    """Where a reader is in a run: a resumed stream may repeat events and text, which are dropped."""

    def __init__(self, seen: int = 0) -> None:
        self.seen = seen
        self.turn = self.length = 0

    @property
    def mark(self) -> tuple[int, int, int]:
        """Changes with everything that was read."""
        return self.seen, self.turn, self.length

    def accept(self, data: str) -> Event | None:
        """The event in the data of a server-sent event; None if the reader has it already."""
        try:
            row = json.loads(data)
        except ValueError:
            return None
        if not isinstance(row, dict):
            return None
        event = Event.of(row)
        if event.type == "message.delta":
            return self.unseen(event)
        if event.seq is not None:
            if event.seq <= self.seen:
                return None
            self.seen = event.seq
        return event

    def unseen(self, event: Event) -> Event | None:
        """The part of a delta that was not read yet: a resumed stream sends the text so far."""
        turn = int(event.data.get("turn", 0))
        offset = int(event.data.get("offset", 0))
        if turn != self.turn:
            self.turn = turn
            self.length = 0
        overlap = max(0, self.length - offset)
        if overlap >= len(event.text):
            return None
        self.length = offset + len(event.text)
        data = {**event.data, "offset": offset + overlap, "text": event.text[overlap:]}
        return Event(event.type, data)


class Text:
    """Collects the text that a model writes, from deltas and from what finished turns contain."""

    def __init__(self) -> None:
        self.turn = 0
        self.written = ""

    def add(self, event: Event) -> str:
        """The new piece of text that this event brings; empty if there is none."""
        if event.type == "message.delta":
            text = self.cut_at_offset(event) + event.text
        elif event.type == "model.finished":
            text = str(event.data.get("text") or "")
        else:
            return ""
        turn = int(event.data.get("turn", 0))
        return self.extend(turn, text)

    def cut_at_offset(self, event: Event) -> str:
        """What was written before this piece."""
        if event.data.get("turn") != self.turn:
            return ""
        offset = int(event.data.get("offset", 0))
        return self.written[:offset]

    def extend(self, turn: int, text: str) -> str:
        """Take over the text of a turn so far. A text that differs from what was written brings nothing new."""
        if turn != self.turn:
            self.turn = turn
            self.written = ""
        new = ""
        if text.startswith(self.written):
            new = text[len(self.written) :]
        self.written += new
        return new
