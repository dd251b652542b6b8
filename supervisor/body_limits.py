"""Limits on how a request is sent: its size, its pieces, and the time that it takes.

Twisted keeps a whole body, in memory or on disk, before our code sees it. A caller who shows no
credential therefore gets little room, and nobody gets more than the site takes. What is refused is
still read for a while and thrown away: a proxy or a client that is in the middle of sending would
otherwise see a broken connection in place of the answer, and nginx would take the server for dead.
"""

import json
import re
import time
import uuid
from io import BytesIO
from typing import Any
from weakref import WeakSet

from daphne.http_protocol import WebRequest
from django.conf import settings
from twisted.internet.task import LoopingCall
from twisted.web.http import _MalformedChunkedDataError

from plumbing.site_paths import remove_site_prefix

STRANGERS_BYTES = 65_536  # a login form and the like
ROOM_BYTES = 65_536  # above the site's limit: Django's own answer is the better one
SIGNED = "/api/v1/hooks/"  # senders show their credential in a header or a signature of the body
GIVEN_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")  # as config/middleware.py takes it
CREDENTIALS = (b"authorization", b"x-api-key")

LINGER_S = 10.0  # how long a refused body is read and thrown away
LINGER_BYTES = 64 << 20  # and how much of it
MAX_SMALL_PIECES = 256  # more pieces of a body must have a mean size of
SMALL_PIECE, STRANGERS_PIECE = 16, 64  # bytes: with a credential, and without one
HEAD_S = 30.0  # in which the head of a request must be complete
BODY_GRACE_S = 30.0  # after which a body must have come at LEAST_RATE on average
LEAST_RATE = 256  # bytes a second
LOOK_EVERY_S = 5.0


def limit_bodies(factory: Any, clock: Any = None) -> LoopingCall:
    """Let the connections of this factory obey the limits. Returns the call that looks for slow senders."""
    build = factory.buildProtocol
    channels: WeakSet[Any] = WeakSet()

    def with_limits(address: Any) -> Any:
        protocol = build(address)
        if protocol is not None:
            protocol.requestFactory = LimitedRequest
            channels.add(protocol._channel)
        return protocol

    factory.buildProtocol = with_limits
    look = LoopingCall(close_slow_senders, channels, SlowHeads())
    if clock is not None:
        look.clock = clock
    look.start(LOOK_EVERY_S, now=False)
    return look


class LimitedRequest(WebRequest):
    """A request that is refused before it is read whole, if it is too large or sent in too many pieces."""

    limit = 0
    received = 0
    pieces = 0
    least_piece = SMALL_PIECE
    is_refused = False
    is_whole = False
    has_head = False
    lingering: Any = None  # the timer that ends the reading of a refused body

    def __init__(self, *args: Any, **more: Any) -> None:
        """Forms are left to Django: Twisted would parse them whole, in memory, on the event loop."""
        super().__init__(*args, **more, parsePOSTFormSubmission=False)
        self.began = time.monotonic()

    def gotLength(self, length: int | None) -> None:  # noqa: N802  (Twisted's names)
        """The headers are read, the body is not."""
        self.has_head = True
        self.began = time.monotonic()
        self.limit = limit_of_body(self)
        if not shows_credential(self.requestHeaders):
            self.least_piece = STRANGERS_PIECE
        if length is not None and length > self.limit:
            self.content = BytesIO()
            self.refuse_size()
        else:
            super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        self.received += len(data)
        self.pieces += 1
        if self.pieces > MAX_SMALL_PIECES and self.received < self.pieces * self.least_piece:
            # Each piece costs a call on the event loop, whatever its size. This error ends the parsing at once.
            self.is_refused = True
            self.channel.transport.write(render_error_response(self, *TOO_MANY_PIECES))
            self.stop_lingering()
            raise _MalformedChunkedDataError("The body is sent in too many small pieces.")
        if self.is_refused:
            if self.received > LINGER_BYTES:
                self.close()
        elif self.received > self.limit:
            self.refuse_size()
        else:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        self.is_whole = True
        if self.is_refused:
            self.close()
        else:
            super().requestReceived(command, path, version)

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        self.stop_lingering()
        super().connectionLost(reason)

    def refuse_size(self) -> None:
        """Answer 413, and throw away what is still sent, within bounds."""
        self.is_refused = True
        self.received = self.pieces = 0  # counted anew, of what is thrown away
        self.requestHeaders.removeHeader(b"expect")  # no “100 Continue” after the answer
        message = f"The body is larger than this site takes: {self.limit} bytes."
        hint = "Send less at a time; without an API key only small bodies are read."
        details = [{"code": "too_large", "limit": self.limit, "unit": "bytes"}]
        answer = render_error_response(self, "413 Content Too Large", "too_large", message, hint, details)
        self.channel.transport.write(answer)
        reactor = self.channel.factory.reactor
        self.lingering = reactor.callLater(LINGER_S, self.close)

    def stop_lingering(self) -> None:
        if self.lingering is not None and self.lingering.active():
            self.lingering.cancel()

    def close(self) -> None:
        self.stop_lingering()
        if self.channel is not None:
            self.channel.loseConnection()

    def is_slow(self, now: float) -> bool:
        """The head is not complete in time, or the body comes slower than the least rate."""
        if self.is_whole or self.is_refused:
            return False
        seconds = now - self.began
        if not self.has_head:
            return seconds > HEAD_S
        return seconds > BODY_GRACE_S and self.received < seconds * LEAST_RATE


class SlowHeads:
    """Since when connections have sent a part of a first line."""

    def __init__(self) -> None:
        self.since: dict[int, float] = {}

    def find_slow(self, channels: list[Any], now: float) -> list[Any]:
        since: dict[int, float] = {}
        slow = []
        for channel in channels:
            if not has_part_of_line(channel):
                continue
            began = self.since.get(id(channel), now)
            since[id(channel)] = began
            if now - began > HEAD_S:
                slow.append(channel)
        self.since = since  # a connection that got on is forgotten
        return slow


def has_part_of_line(channel: Any) -> bool:
    is_reading = bool(channel.requests) or channel._handlingRequest
    return not is_reading and bool(channel._buffer)


def close_slow_senders(channels: WeakSet[Any], heads: SlowHeads) -> None:
    now = time.monotonic()
    connected = [channel for channel in channels if channel.transport is not None]
    for channel in heads.find_slow(connected, now):
        channel.loseConnection()
    for channel in connected:
        request = channel.requests[-1] if channel.requests else None
        if isinstance(request, LimitedRequest) and request.is_slow(now):
            request.is_refused = True
            channel.transport.write(render_error_response(request, *TOO_SLOW))
            request.close()


TOO_MANY_PIECES = (
    "400 Bad Request",
    "too_many_pieces",
    "The body is sent in too many small pieces.",
    f"Send pieces of {STRANGERS_PIECE} bytes and more.",
)
TOO_SLOW = (
    "408 Request Timeout",
    "request_too_slow",
    "The request was sent too slowly.",
    f"The head must be complete after {HEAD_S:.0f} s, and the body must come at {LEAST_RATE} bytes a second.",
)


def render_error_response(request: Any, status: str, code: str, message: str, hint: str, details: Any = ()) -> bytes:
    """A whole HTTP response in the form of all errors, after which the connection is closed."""
    request_id = get_request_id(request.requestHeaders)
    error = {"code": code, "message": message, "hint": hint, "details": list(details), "request_id": request_id}
    body = json.dumps({"error": error}).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"X-Request-ID: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get_request_id(headers: Any) -> str:
    """`X-Request-ID` as received, or a new one."""
    header = headers.getRawHeaders(b"x-request-id", [b""])[-1]
    if GIVEN_ID.fullmatch(header):
        return header.decode()
    return uuid.uuid4().hex


def limit_of_body(request: Any) -> int:
    """How many bytes of the body are read."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + ROOM_BYTES
    if is_upload(request.requestHeaders):
        limit = max(limit, settings.FILE_BYTES + ROOM_BYTES)
    if shows_credential(request.requestHeaders) or get_request_path(request).startswith(SIGNED):
        return limit
    return min(limit, STRANGERS_BYTES)


def shows_credential(headers: Any) -> bool:
    if any(headers.hasHeader(name) for name in CREDENTIALS):
        return True
    cookies = b"; ".join(headers.getRawHeaders(b"cookie", []))
    return settings.SESSION_COOKIE_NAME.encode() in cookies


def is_upload(headers: Any) -> bool:
    kinds = headers.getRawHeaders(b"content-type", [])
    return bool(kinds) and kinds[0].lower().startswith(b"multipart/form-data")


def get_request_path(request: Any) -> str:
    """The path as the request line has it, without the site's prefix: Twisted parses it once the body is there."""
    path: bytes = getattr(request.channel, "_path", b"") or b""
    return remove_site_prefix(path.decode("latin-1"))
