"""A short cut for short text messages of a WebSocket; every other frame is handled by autobahn.

All that reaches into Daphne, autobahn and Twisted is here and in `backpressure.py`.

autobahn takes a dozen steps per frame and formats log lines that nobody reads; Twisted asks the
kernel three times per write. An idle device costs the server one such message and its answer per
heartbeat, a call costs three.
"""

import time
from functools import lru_cache
from typing import Any

from autobahn.websocket.types import ConnectionDeny
from daphne.ws_protocol import WebSocketProtocol
from twisted.web import http

FINAL_TEXT, MASKED, TWO_BYTES, LONGEST = 0x81, 0x80, 126, 0xFFFF
FRAMES_AT_ONCE, FRAMES_PER_S = 4000, 1000  # of one socket, of any kind; then it is closed with
FLOODED, TOO_MANY_FRAMES = 4429, "too_many_frames"
MESSAGE_BYTES = 2 << 20  # a longer message closes its socket unread; consumers refuse shorter ones with an error frame


def speak_shortly(factory: Any) -> None:
    """Clients that violate the protocol or send too much receive a close code."""
    factory.protocol = ShortcutProtocol
    factory.setProtocolOptions(maxFramePayloadSize=MESSAGE_BYTES, maxMessagePayloadSize=MESSAGE_BYTES, failByDrop=False)


def spare_twisted(server: Any) -> None:
    """Switches off the access log and repeated header parsing, which took an eighth of the event
    loop's time.
    """
    server.http_factory.log = lambda request: None
    http._parseContentType = lru_cache(256)(http._parseContentType)  # type: ignore[attr-defined]


class ShortcutProtocol(WebSocketProtocol):
    """Counts frames: each takes its time on the event loop, however small it is."""

    frames = 0
    counted_since: float | None = None
    is_flooded = False

    def count_frame(self) -> bool:
        """False if they come too fast: the socket is closed, and what still arrives is thrown away unread."""
        if self.counted_since is None:
            self.counted_since = time.monotonic()
        self.frames += 1
        self.transport.small_reads = 0  # each frame has a budget of its own (reads.py)
        if self.frames < FRAMES_AT_ONCE:
            return True
        now = time.monotonic()
        if now - self.counted_since >= FRAMES_AT_ONCE / FRAMES_PER_S:
            self.frames, self.counted_since = 0, now
            return True
        self.is_flooded, self.data = True, b""
        self.sendClose(FLOODED, TOO_MANY_FRAMES)  # autobahn drops the line if no answer comes within a second
        return False

    def onFrameBegin(self) -> None:
        """autobahn has read the head of a frame: of a long or a cut message, a continuation, a ping."""
        if self.count_frame():
            super().onFrameBegin()

    def processData(self) -> bool:
        return not self.is_flooded and super().processData()

    def check_timeouts(self) -> None:
        """A handshake that is not accepted in time gets 503.

        Daphne would answer 403, which a device takes as a revoked credential: its client would exit
        and had to be paired again.
        """
        if self.state != self.STATE_CONNECTING or self.duration() <= self.server.websocket_connect_timeout:
            super().check_timeouts()
        elif waiting := self.__dict__.pop("handshake_deferred", None):
            waiting.errback(ConnectionDeny(code=503, reason="Busy: try again later"))
            self.server.protocol_disconnected(self)

    def dataReceived(self, data: bytes) -> None:
        """A frame that is not one whole short text, and everything after it, is handled by
        autobahn.
        """
        if self.is_flooded:
            return
        start = 0
        while self.is_between_messages() and (message := whole_text(data, start)):
            text, start = message
            if not self.count_frame():
                return
            self.hear(text)
        if start < len(data) and not self.is_flooded:
            super()._dataReceived(data[start:] if start else data)

    def is_between_messages(self) -> bool:
        if self.state != self.STATE_OPEN or self.muted:
            return False
        return not (self.data or self.current_frame or self.inside_message or self._perMessageCompress)

    def hear(self, text: str) -> None:
        self.last_ping = time.time()
        if self.autoPingTimeoutCall:
            self._cancelAutoPingTimeoutCall()
        self.application_queue.put_nowait({"type": "websocket.receive", "text": text})

    def serverSend(self, content: Any, binary: bool = False) -> None:
        if binary or self.state != self.STATE_OPEN or self.send_queue or self._perMessageCompress:
            super().serverSend(content, binary)
            return
        payload = content.encode()
        if len(payload) > LONGEST:
            super().serverSend(content, binary)
        else:
            write_now(self.transport, build_frame_head(len(payload)) + payload)


def whole_text(data: bytes, at: int = 0) -> tuple[str, int] | None:
    """The text of the frame at this place, and where the frame ends; None if it is not one whole short text."""
    if len(data) < at + 8 or data[at] != FINAL_TEXT or data[at + 1] < MASKED:
        return None
    length, start = data[at + 1] - MASKED, at + 6
    if length == TWO_BYTES:
        length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 8
        if length < TWO_BYTES:
            return None
    elif length > TWO_BYTES:
        return None
    end = start + length
    if len(data) < end:
        return None
    try:
        return unmask_payload(data[start:end], data[start - 4 : start]).decode(), end
    except UnicodeDecodeError:
        return None


def unmask_payload(payload: bytes, mask: bytes) -> bytes:
    """One operation on two long integers: a loop over bytes would take a hundred times as long."""
    size = len(payload)
    repeated = mask * (size // len(mask) + 1)
    pattern = int.from_bytes(repeated[:size], "big")
    unmasked = int.from_bytes(payload, "big") ^ pattern
    return unmasked.to_bytes(size, "big")


def build_frame_head(size: int) -> bytes:
    """The frame of an unmasked text."""
    if size < TWO_BYTES:
        return bytes((FINAL_TEXT, size))
    return bytes((FINAL_TEXT, TWO_BYTES)) + size.to_bytes(2, "big")


def write_now(transport: Any, data: bytes) -> None:
    """Write to the kernel at once unless data is already waiting; what it does not take is queued."""
    if transport.connected and not (transport.disconnecting or transport.dataBuffer or transport._tempDataBuffer):
        sent = transport.writeSomeData(data)
        data = data[sent:] if isinstance(sent, int) else data  # a lost connection is noticed by the event loop
    if data:
        transport.write(data)
