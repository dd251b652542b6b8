"""An event as it is sent: each text form is built once, however many readers there are."""

from typing import Any

# Not that of functools, which takes a lock each time.
from django.utils.functional import cached_property

from plumbing import json_values


class Frame:
    """One event of a run; `data` is JSON text. An event that is not stored, such as a delta, has no
    number and no time.
    """

    def __init__(self, run: str, type: str, data: str, *, seq: int | None = None, at: str | None = None) -> None:
        self.run = run
        self.type = type
        self.json_data = data
        self.seq = seq
        self.at = at

    @classmethod
    def of(cls, event: dict[str, Any]) -> "Frame":
        """From an event in the format of `record.serialize_event`."""
        data = json_values.dump_json(event["data"]).decode()
        frame = cls(event["run"], event["type"], data, seq=event["seq"], at=event.get("at"))
        frame.data = event["data"]
        return frame

    @cached_property
    def data(self) -> dict[str, Any]:
        return json_values.load_json(self.json_data)

    @property
    def is_last(self) -> bool:
        return self.type == "run.finished"

    @cached_property
    def as_sse(self) -> bytes:
        """A server-sent event; `id:` is the event's number."""
        if self.seq is None:
            body = f'{{"type":"{self.type}","data":{self.json_data}}}'
            return f"event: {self.type}\ndata: {body}\n\n".encode()
        body = f'{{"seq":{self.seq},"type":"{self.type}","at":"{self.at}","data":{self.json_data}}}'
        return f"id: {self.seq}\nevent: {self.type}\ndata: {body}\n\n".encode()

    @cached_property
    def as_message(self) -> str:
        """The text of a WebSocket message."""
        number = "null" if self.seq is None else f'{self.seq},"at":"{self.at}"'
        return f'{{"run":"{self.run}","type":"{self.type}","seq":{number},"data":{self.json_data}}}'


class Heartbeat(Frame):
    """A heartbeat: nothing happened, and the connection is alive."""

    as_sse = b": still here\n\n"
    as_message = '{"type":"heartbeat"}'

    def __init__(self) -> None:
        super().__init__("", "heartbeat", "{}")


HEARTBEAT = Heartbeat()


def delta(run: str, turn: int, offset: int, text: str) -> Frame:
    data = json_values.dump_json({"turn": turn, "offset": offset, "text": text}).decode()
    return Frame(run, "message.delta", data)
