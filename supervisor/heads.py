"""The head of a request: forms of it that Twisted does not read, and an answer where it cannot be read.

Twisted closes the connection when a line is too long, and answers what it cannot parse with a bare
400. Here both get an error in the form of all errors. The connection then stays half open for a
while: a client that is in the middle of sending would otherwise see a reset in place of the answer.
"""

import re
from http import HTTPStatus
from typing import Any

from twisted.web import http
from twisted.web.http_headers import Headers

from .body_limits import LINGER_BYTES, LINGER_S, render_error_response

LINE_BYTES = 16_384  # of the request line, and of each header
HEAD_BYTES = 2 * LINE_BYTES  # of all lines together, so that a long address leaves room for headers
ROOT_PATH = b"daphne-root-path"  # Daphne lets the caller say which part of the address is not for the views
ABSOLUTE_FORM = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)

TOO_LONG = (
    "414 URI Too Long",
    "address_too_long",
    f"The address of this request is longer than {LINE_BYTES} bytes.",
    "Send long values in the body of a request.",
)
TOO_LARGE = (
    "431 Request Header Fields Too Large",
    "headers_too_large",
    f"A header is longer than {LINE_BYTES} bytes, all together are longer than {HEAD_BYTES} bytes, or there are more "
    f"than {http.HTTPChannel.maxHeaders}.",
    "Send fewer or shorter headers and cookies.",
)
NOT_HTTP = (
    "400 Bad Request",
    "malformed_request",
    "The request is not valid HTTP/1.1.",
    "Check its first line, the names of its headers, and how the length of its body is given: by Content-Length or by "
    "Transfer-Encoding: chunked, not by both.",
)


def answer_bad_heads(factory: Any) -> None:
    """Let the connections of this factory answer heads that cannot be read."""
    http.RESPONSES.update(
        {status.value: status.phrase.encode() for status in HTTPStatus if status.value not in http.RESPONSES}
    )
    factory.protocol = lambda: http._GenericHTTPChannelProtocol(AnsweringChannel())


class AnsweringChannel(http.HTTPChannel):
    """One connection of a client."""

    MAX_LENGTH = LINE_BYTES
    totalHeadersSize = HEAD_BYTES  # noqa: N815  (Twisted's names)
    requestHeaders = Headers()  # noqa: N815  (for `render_error_response`: what was sent is not trusted)
    is_refused = False
    ignored_bytes = 0

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        if not self.is_refused:
            super().dataReceived(data)
            return
        self.ignored_bytes += len(data)
        if self.ignored_bytes > LINGER_BYTES:
            self.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802
        self.refuse(*(TOO_LARGE if self.has_first_line() else TOO_LONG))

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        if self._receivedHeaderSize + len(line) > self.totalHeadersSize:
            self.refuse(*TOO_LARGE)
        else:
            super().lineReceived(line)

    def has_first_line(self) -> bool:
        return hasattr(self, "_command")

    def allHeadersReceived(self) -> None:  # noqa: N802
        """A target in absolute form names the host, which then counts in place of the header (RFC 9112, 3.2.2)."""
        channel: Any = self  # its path is bytes, whatever Twisted's types say
        self.requests[-1].requestHeaders.removeHeader(ROOT_PATH)
        if absolute := ABSOLUTE_FORM.fullmatch(channel._path):
            host, rest = absolute.groups()
            self.requests[-1].requestHeaders.setRawHeaders(b"host", [host])
            channel._path = rest if rest.startswith(b"/") else b"/" + rest
        super().allHeadersReceived()

    def allContentReceived(self) -> None:  # noqa: N802
        """The request is complete: the next one has a budget of its own (reads.py)."""
        self.transport.small_reads = 0  # type: ignore[union-attr]
        super().allContentReceived()

    def _maybeChooseTransferDecoder(self, header: bytes, data: bytes) -> bool:  # noqa: N802
        is_clear: bool = super()._maybeChooseTransferDecoder(header, data)
        if is_clear and header == b"Transfer-Encoding" and self._transferDecoder is not None:
            self._transferDecoder = ChunkDecoder(self.requests[-1].handleContentChunk, self._finishRequestBody)
        return is_clear

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802
        has_too_many = self._receivedHeaderCount > self.maxHeaders
        self.refuse(*(TOO_LARGE if has_too_many else NOT_HTTP))

    def refuse(self, status: str, code: str, message: str, hint: str) -> None:
        """Answer, and read what is still sent without looking at it, until the client closes or the time is over."""
        if self.is_refused:
            return
        self.is_refused = True
        self._buffer = b""
        if self.requests and getattr(self.requests[-1], "is_refused", False):
            self.loseConnection()  # it was answered already
            return
        self.transport.write(render_error_response(self, status, code, message, hint))  # type: ignore[call-arg]
        self.transport.loseWriteConnection()
        self.setTimeout(LINGER_S)


class ChunkDecoder(http._ChunkedTransferDecoder):
    """Chunks whose size is followed by spaces or tabs, which a recipient must ignore (RFC 9112, 7.1.1)."""

    def _dataReceived_CHUNK_LENGTH(self) -> bool:  # noqa: N802
        end = self._buffer.find(b"\r\n", self._start, http.maxChunkSizeLineLength)
        if end > 0:
            size, semicolon, extension = bytes(self._buffer[:end]).partition(b";")
            self._buffer[:end] = size.rstrip(b" \t") + semicolon + extension
            self._start = 0
        return super()._dataReceived_CHUNK_LENGTH()
