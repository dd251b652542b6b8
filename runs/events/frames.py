"""An event as it goes over the wire: each of its texts is made once, however many read it."""

from typing import Any

import orjson
from django.utils.functional import cached_property  # functools' takes a lock each time


class Frame:
    """One event of a run; `data` is JSON text. What is not stored, as a delta is not, has neither number nor time."""

    def __init__(self, run: str, type: str, data: str, *, seq: int | None = None, at: str | None = None) -> None:
        self.run, self.type, self.json_data, self.seq, self.at = run, type, data, seq, at

    @classmethod
    def of(cls, event: dict[str, Any]) -> "Frame":
        """Of an event as `events.as_json` writes it."""
        data = orjson.dumps(event["data"], default=str).decode()
        made = cls(event["run"], event["type"], data, seq=event["seq"], at=event.get("at"))
        made.data = event["data"]
        return made

    @cached_property
    def data(self) -> dict[str, Any]:
        return orjson.loads(self.json_data)

    @property
    def is_last(self) -> bool:
        return self.type == "run.finished"

    @cached_property
    def as_sse(self) -> bytes:
        """A server-sent event; `id:` is the event's number."""
        if self.seq is None:
            return f'event: {self.type}\ndata: {{"type":"{self.type}","data":{self.json_data}}}\n\n'.encode()
        return (
            f"id: {self.seq}\nevent: {self.type}\n"
            f'data: {{"seq":{self.seq},"type":"{self.type}","at":"{self.at}","data":{self.json_data}}}\n\n'
        ).encode()

    @cached_property
    def as_message(self) -> str:
        """The text of a WebSocket message."""
        number = "null" if self.seq is None else f'{self.seq},"at":"{self.at}"'
        return f'{{"run":"{self.run}","type":"{self.type}","seq":{number},"data":{self.json_data}}}'


class Heartbeat(Frame):
    """Nothing happened for a while, and the line still stands."""

    as_sse = b": still here\n\n"
    as_message = '{"type":"heartbeat"}'

    def __init__(self) -> None:
        super().__init__("", "heartbeat", "{}")


HEARTBEAT = Heartbeat()


def delta(run: str, turn: int, offset: int, text: str) -> Frame:
    data = orjson.dumps({"turn": turn, "offset": offset, "text": text}).decode()
    return Frame(run, "message.delta", data)
