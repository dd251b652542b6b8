"""How much of a request's body is read. Twisted keeps all of it, in memory or on disk, before our code sees it.

A caller who shows no credential gets little room; nobody gets more than the site takes.
"""

import json
import re
import uuid
from io import BytesIO
from typing import Any

from daphne.http_protocol import WebRequest
from django.conf import settings

STRANGERS_BYTES = 65_536  # a login form and the like
ROOM_BYTES = 65_536  # above the site's limit: Django's own answer is the better one
SIGNED = b"/api/v1/hooks/"  # senders show their credential in a header or a signature of the body
GIVEN_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")  # as config/middleware.py takes it
CREDENTIALS = (b"authorization", b"x-api-key")
HEAD = b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"


def limit_bodies(factory: Any) -> None:
    build = factory.buildProtocol

    def with_limit(address: Any) -> Any:
        protocol = build(address)
        if protocol is not None:
            protocol.requestFactory = LimitedRequest
        return protocol

    factory.buildProtocol = with_limit


class LimitedRequest(WebRequest):
    received = 0
    most = 0
    is_refused = False

    def __init__(self, *args: Any, **more: Any) -> None:
        """Forms are left to Django: Twisted would parse them whole, in memory, on the event loop."""
        super().__init__(*args, **more, parsePOSTFormSubmission=False)

    def gotLength(self, length: int | None) -> None:  # noqa: N802  (Twisted's names)
        """The headers are read, the body is not."""
        self.most = most_of(self)
        if length is not None and length > self.most:
            self.content = BytesIO()
            self.refuse()
        else:
            super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        self.received += len(data)
        if not self.is_refused and self.received > self.most:
            self.refuse()
        if not self.is_refused:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        if not self.is_refused:
            super().requestReceived(command, path, version)

    def refuse(self) -> None:
        self.is_refused = True
        self.channel.transport.write(answer_of(self.most, request_id_of(self.requestHeaders)))
        self.channel.loseConnection()


def answer_of(limit: int, request_id: str) -> bytes:
    error = {
        "code": "too_large",
        "message": f"The body is larger than this site takes: {limit} bytes.",
        "hint": "Send less at a time; without an API key only small bodies are read.",
        "details": [{"code": "too_large", "limit": limit, "unit": "bytes"}],
        "request_id": request_id,
    }
    body = json.dumps({"error": error}).encode()
    return HEAD + f"X-Request-ID: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def request_id_of(headers: Any) -> str:
    """`X-Request-ID` as received, or a new one."""
    header = headers.getRawHeaders(b"x-request-id", [b""])[-1]
    return header.decode() if GIVEN_ID.fullmatch(header) else uuid.uuid4().hex


def most_of(request: Any) -> int:
    """Bytes of the body that are read."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + ROOM_BYTES
    if is_upload(request.requestHeaders):
        limit = max(limit, settings.FILE_BYTES + ROOM_BYTES)
    if shows_credential(request.requestHeaders) or target_of(request).startswith(SIGNED):
        return limit
    return min(limit, STRANGERS_BYTES)


def shows_credential(headers: Any) -> bool:
    cookies = b"; ".join(headers.getRawHeaders(b"cookie", []))
    return settings.SESSION_COOKIE_NAME.encode() in cookies or any(headers.hasHeader(name) for name in CREDENTIALS)


def is_upload(headers: Any) -> bool:
    kinds = headers.getRawHeaders(b"content-type", [])
    return bool(kinds) and kinds[0].lower().startswith(b"multipart/form-data")


def target_of(request: Any) -> bytes:
    """The path as the request line has it: Twisted parses it once the body is there."""
    return getattr(request.channel, "_path", b"") or b""
