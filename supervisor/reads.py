"""A budget of small reads: what is sent a byte at a time is read a few times a second.

Each read costs the event loop the same, however few bytes it brings. A connection that brings many tiny
pieces before a request or a frame is complete therefore rests for a moment after each further one.
Meanwhile the kernel gathers what arrives, so nothing is refused, and an honest sender loses a quarter of a
second at most.
"""

from typing import Any

from twisted.internet.tcp import Server

SMALL_BYTES = 512  # a read of fewer bytes is a small one
FREE_READS = 32  # small reads before a request or frame is complete; then
REST_S = 0.25  # follows each of them


class RestingServer(Server):
    """The transport of an accepted connection, which keeps the budget."""

    small_reads = 0
    is_paused = False  # by the protocol
    rest: Any = None  # the timer

    def _dataReceived(self, data: bytes) -> Any:  # noqa: N802  (Twisted's names)
        result = super()._dataReceived(data)
        if not data or len(data) >= SMALL_BYTES:
            return result
        self.small_reads += 1
        if self.small_reads > FREE_READS and self.rest is None and self.connected:
            self.stopReading()
            self.rest = self.reactor.callLater(REST_S, self.end_rest)
        return result

    def end_rest(self) -> None:
        self.rest = None
        if not self.is_paused:
            super().resumeProducing()

    def pauseProducing(self) -> None:  # noqa: N802
        self.is_paused = True
        super().pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802
        self.is_paused = False
        if self.rest is None:
            super().resumeProducing()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        if self.rest is not None:
            self.rest.cancel()
            self.rest = None
        super().connectionLost(reason)
