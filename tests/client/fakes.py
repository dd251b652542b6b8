"""A server of the client as a list of answers: what it was asked is kept, nothing goes over a network."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from muster_client import Muster
from muster_client.retries import Retries

URL, KEY = "http://muster.test", "mk_12345678.secret"
Step = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Server:
    """Answers in order; the last answer is repeated."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        return step(request) if callable(step) else step

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) if request.content else None for request in self.requests]

    def sent(self, header: str) -> list[str | None]:
        return [request.headers.get(header) for request in self.requests]


def client(server: Server, *, retries: int = 3) -> Muster:
    """A client whose pauses are so short that no test waits."""
    muster = Muster(URL, KEY, http=httpx.Client(transport=httpx.MockTransport(server)))
    muster._transport.retries = Retries(limit=retries, first_s=0.001, longest_s=0.002)
    return muster


class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that breaks after its text."""

    def __init__(self, text: str, *, breaks: bool = True) -> None:
        self.text, self.breaks = text, breaks

    def __iter__(self) -> Iterator[bytes]:
        yield self.text.encode()
        if self.breaks:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    async def __aiter__(self):
        for piece in self:
            yield piece


def sse(*events: dict[str, Any], breaks: bool = False, **headers: str) -> httpx.Response:
    """An event stream as the server writes it."""
    text = "retry: 1000\n\n: still here\n\n"
    for event in events:
        number = f"id: {event['seq']}\n" if event.get("seq") else ""
        text += f"{number}event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
    head = {"content-type": "text/event-stream", **headers}
    return httpx.Response(200, headers=head, stream=Cut(text, breaks=breaks))


def event(seq: int | None, type: str, **data: Any) -> dict[str, Any]:
    return {**({"seq": seq, "at": "2026-01-01T00:00:00Z"} if seq else {}), "type": type, "data": data}


def delta(offset: int, text: str, turn: int = 1) -> dict[str, Any]:
    return event(None, "message.delta", turn=turn, offset=offset, text=text)


def finished(seq: int, text: str = "Hello!", status: str = "succeeded") -> dict[str, Any]:
    return event(seq, "run.finished", status=status, reply={"role": "assistant", "text": text})


def run(id: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"id": id, "status": "succeeded", "finished_at": "2026-01-01T00:00:00Z", "waiting_for": "", **fields}


def answer(text: str = "Hello!") -> httpx.Response:
    return httpx.Response(200, json={"run": run(), "session": "s1", "reply": {"text": text}, "usage": {}})


def error(status: int, code: str = "broken", **headers: str) -> httpx.Response:
    body = {"code": code, "message": "It did not work.", "hint": "Try this.", "details": [], "request_id": "req-1"}
    return httpx.Response(status, json={"error": body}, headers=headers)
