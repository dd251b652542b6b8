"""Server-sent events, read from bytes as they arrive."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from plumbing.http import outbound

# Bytes of one answer, with the events before it.
ANSWER_LIMIT = 2 * 1024 * 1024


@dataclass(slots=True)
class Position:
    """Where a stream was left: the last event's id, and the pause before connecting again."""

    event_id: str = ""
    retry_s: float = 1.0
    # Bytes read so far, of all connections.
    size: int = 0


def events(parts: Iterable[bytes], position: Position) -> Iterator[str]:
    """The data of each event that has any; ids and pauses are noted in `position`.

    An event with empty data only carries an id (the priming event of MCP). Raises TooMuch beyond the
    size limit.
    """
    rest = b""
    data: list[bytes] = []
    event_id: str | None = None
    for part in parts:
        position.size += len(part)
        if position.size > ANSWER_LIMIT:
            raise outbound.TooMuch(f"The answer is larger than {ANSWER_LIMIT} bytes.")
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            name, value = field(line.rstrip(b"\r"))
            if name == b"data":
                data.append(value)
            elif name == b"id" and b"\0" not in value:
                event_id = value.decode("utf-8", "replace")[:1024]
            elif name == b"retry" and value.isdigit():
                position.retry_s = min(int(value[:9]) / 1000, 60.0)
            elif not name:
                # An empty line ends the event. Only now its id counts: a torn event is sent again.
                if event_id is not None:
                    position.event_id = event_id
                text = b"\n".join(data)
                data, event_id = [], None
                if text.strip():
                    yield text.decode("utf-8", "replace")


def field(line: bytes) -> tuple[bytes, bytes]:
    """Name and value. A comment has a name that no field has; an empty line ends the event."""
    if line.startswith(b":"):
        return b":", b""
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")
