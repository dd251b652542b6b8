"""The zoo's network: a connection pool with the interface of ours that hands requests to a server in this process."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpcore2

from .acts import Act, Reply


class Body:
    """The bytes of an answer in parts of one size, as a stream of httpcore's."""

    def __init__(self, reply: Reply, size: int) -> None:
        self._reply = reply
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        content = self._reply.content
        for start in range(0, len(content), self._size):
            yield content[start : start + self._size]
        if self._reply.is_cut:
            raise httpcore2.RemoteProtocolError("the connection was closed")

    def close(self) -> None:
        pass


class ZooPool:
    """`get_connection_pool` returns it in tests. `script` says what the server answers, in order; `requests` holds what it got."""

    def __init__(self, server: Any, *, size: int = 512) -> None:
        self.server = server
        self.size = size
        self.acts: list[Act] = []
        self.requests: list[dict[str, Any]] = []
        self.complaints: list[str] = []  # what the server refused in a request
        self.ends_after: int | None = None  # bytes of an answer, after which the connection is closed
        self.breaks = False  # it is closed with an error

    def script(self, *acts: Act) -> None:
        self.acts.extend(acts)

    def handle_request(self, request: Any) -> httpcore2.Response:
        return self.respond(self.answer(request.url.target.decode(), json.loads(b"".join(request.stream))))

    def answer(self, path: str, body: dict[str, Any]) -> Reply:
        self.requests.append(body)
        complaint = self.server.refuse(body)
        if complaint is not None:
            self.complaints.append(complaint.content.decode())
            return complaint
        is_streamed = bool(body.get("stream")) or "streamGenerateContent" in path
        reply = self.server.answer(self.acts.pop(0), body, is_streamed=is_streamed)
        if self.ends_after is not None:
            reply = replace(reply, content=reply.content[: self.ends_after], is_cut=self.breaks)
        return reply

    def respond(self, reply: Reply) -> httpcore2.Response:
        headers = {"Content-Type": reply.kind, **(reply.headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        return httpcore2.Response(reply.status, headers=pairs, content=Body(reply, self.size))
